"""Definitions of every type that could be checked, with every key that each may have; and small faults in them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from agentos.core.checkpoints.kinds.command_record import sealed

SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
# A type, what it expects, its metadata.
Definition = tuple[str, dict[str, Any], dict[str, Any]]

RECORD = sealed(
    {
        "argv": ["make", "all"],
        "cwd": ".",
        "env": [],
        "host": "here",
        "timed_out": False,
        "products": [],
        "started_at": "2026-03-01T10:02:11+00:00",
        "ended_at": "2026-03-01T10:02:12+00:00",
        "duration_ms": 1000.0,
        "exit_code": 0,
        "signal": None,
        **{name: {"sha256": SHA256, "bytes": 4, "tail": "done"} for name in ("stdout", "stderr")},
    }
)

GOOD: tuple[Definition, ...] = (
    ("artifact_exists", {"path": "out/x", "type": "file"}, {"lifetime": "task", "sensitive": True, "keep": False}),
    ("artifact_exists", {"path": "/a/../../b"}, {"timeout": 1, "deadline": 0.5, "anything": [1]}),
    ("artifact_absent", {"path": "..x/.../y"}, {}),
    ("file_sha256", {"path": "x", "sha256": SHA256.upper(), "size": 4}, {"keep": True}),
    ("file_prefix_sha256", {"path": "x", "bytes": 4, "sha256": SHA256}, {}),
    (
        "file_contains",
        {"path": "x", "pattern": "a+", "regex": True, "count": {"ge": 0, "le": 7, "lt": 9, "gt": 0, "not": 3, "equals": 1}},
        {"flags": ["dotall", "ignorecase"], "max_bytes": 9, "time_limit": 2.5, "encoding": "utf-8"},
    ),
    ("file_contains", {"path": "x", "pattern": "ä", "absent": True}, {"flags": []}),
    ("json_value", {"path": "x", "pointer": "/a~1b/0", "value": {"in": [1], "not": None}}, {"format": "jsonl-last"}),
    ("json_value", {"path": "x", "pointer": "", "exists": False}, {"format": "json", "max_bytes": 9}),
    ("json_value", {"path": "x", "pointer": "/a", "value": {"contains": 1, "prefix": "a", "suffix": "b", "equals": []}}, {}),
    (
        "directory_tree",
        {
            "path": ".",
            "digest": SHA256,
            "algo": "agentos-tree-v1",
            "exclude": ["*.log", "!keep.log"],
            "gitignore": True,
            "files": 2,
            "bytes": 0,
        },
        {"manifest": "text", "max_files": 9, "max_bytes": 9, "max_depth": 9},
    ),
    ("directory_tree", {"path": ".", "digest": SHA256}, {"exclude": ["*.log"]}),
    ("command_exit", {"exit_code": 0}, {"record": RECORD, "command": "make all", "timeout": "as the command was given it"}),
    ("command_exit", {"exit_code": -9}, {"actual_exit_code": 1, "snapshot_key": "/runs/0/exit_code"}),
    ("process_exists", {"pid": 1, "start_ticks": 0, "boot_id": "b"}, {"pid_ns": "4026531836", "host": "here"}),
    (
        "process_exists",
        {
            "name": {"in": ["a", "b"]},
            "user": "me",
            "exe": {"prefix": "/usr", "suffix": "n", "contains": "", "not": "x"},
            "argv": {"equals": ["a"], "contains": "--x", "not": []},
            "count": 2,
        },
        {"timeout": 4},
    ),
    ("process_exists", {"selector": {"user": "me", "exe": {"not": "x"}, "argv": {"contains": "--x"}}, "count": {"ge": 1}}, {}),
    (
        "db_row",
        {"table": "t", "where": {"id": 2**63 - 1, "n": None}, "values": {"a": 1.5, "b": True, "c": "x"}, "unique": True},
        {"db_path": "a.db"},
    ),
    ("db_row_absent", {"table": "t", "where": {"id": -(2**63)}}, {"db_path": "a.db"}),
    ("db_row_count", {"table": "t", "where": {}, "count": 0}, {"db_path": "a.db"}),
    ("db_row_count", {"table": "t", "where": {"a": ""}, "count": {"not": 0}}, {}),
    ("git_commit", {"repo": ".", "commit": "a" * 40, "branch": "main"}, {}),
    ("git_commit", {"repo": ".", "commit": SHA256}, {}),
    ("git_clean", {"repo": ".", "untracked": "no", "submodules": "ignore"}, {}),
    (
        "network_reachable",
        {"host": "db.example.", "port": 5432, "proto": "tcp", "reachable": False},
        {"family": "ipv4", "allow_private": True, "success_threshold": 2},
    ),
    ("network_reachable", {"host": "::1", "port": 1}, {}),
    ("port_listening", {"port": 80, "ip": "127.0.0.1", "proto": "udp"}, {}),
    ("port_listening", {"port": 80, "ip": "::ffff:1.2.3.4"}, {}),
    (
        "api_response",
        {
            "url": "https://a.example:8443/x?y=%20",
            "status": [200, 204],
            "headers": {"ETag": {"prefix": "W/"}},
            "json": {"/a": 1, "": {"not": 2}},
            "body_sha256": SHA256,
        },
        {
            "method": "GET",
            "headers_ref": {"Authorization": "AGENTOS_HEADER_TOKEN"},
            "max_body": 9,
            "redirects": 1,
            "verify_tls": True,
            "family": "any",
            "allow_private": False,
        },
    ),
    ("api_response", {"url": "HTTP://[::1]?x", "status": {"lt": 400}}, {"method": "HEAD", "allow_private": True}),
    (
        "container_running",
        {"id": "a" * 12, "image_digest": f"sha256:{SHA256}", "health": "any", "started_at": "2026-03-01T10:02:11Z"},
        {"runtime": "podman", "success_threshold": 3, "interval": 0.5, "timeout": 9},
    ),
    ("container_running", {"name": "db"}, {}),
)

_WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 10, 11, 65_536, 2**63 - 1, 2**63, 1.5, 90_000, "", "x", "x\n", "\0", "a b", "file", "udp"),
    *(SHA256, "../x", "/x", "a/../../x", "main", "(", "HEAD", "none", "1.2.3", "::", ":::", "#", "a.example"),
    *("http://a.example/", "http://a@a.example/", "http://a.example:0/", "http://a.example/#x", "ftp://a.example/"),
    *([], ["x"], [1], [200], {}, {"x": 1}, {"ge": 0}, {"gt": 1}, {"le": 2**63}, {"equals": 1}, {"not": 2**64}, {"in": []}),
    *({"equals": "x"}, {"contains": "x"}, {"contains": 1}, {"prefix": ""}, {"/a": {"gt": True}}, {"Host": "AGENTOS_HEADER_X"}),
)


def faulty(good: Definition) -> Iterator[Definition]:
    """The definition with one thing in it changed, left out or added; some of these could be checked too."""
    kind, expected, metadata = good
    for change in _changes({"expected": expected, "metadata": metadata}, outermost=True):
        yield kind, change["expected"], change["metadata"]


def _changes(value: Any, *, outermost: bool = False) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in value:
            for inner in _changes(value[key]):
                yield {**value, key: inner}
            if not outermost:
                yield {name: each for name, each in value.items() if name != key}
                yield from ({**value, key: copy.deepcopy(wrong)} for wrong in _WRONG)
        if not outermost:
            yield {**value, "another": 1}
            yield {**value, "an other": "x"}
    elif isinstance(value, list):
        for at, each in enumerate(value):
            for inner in [*_changes(each), *_WRONG]:
                yield [*value[:at], inner, *value[at + 1 :]]
        yield [*value, *value]
