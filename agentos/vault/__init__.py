"""The hands: keep content by its SHA-256, plan what would make a claim true again, and do it.

Nothing is judged here, and nothing is destroyed that was not kept first.
"""
