"""Liars about databases."""

from __future__ import annotations

import sqlite3

from agentos.core.checkpoints import Evidence
from tests.torture.liars.liar import Liar


class _Rows(Liar):
    """A database in the log or in the rollback journal; each change is one transaction."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.path = self.folder / "world.db"
        self.mode = self.rng.choice(["wal", "delete"])
        with sqlite3.connect(self.path) as connection:
            connection.execute(f"pragma journal_mode={self.mode}")
            connection.execute("create table jobs (id integer primary key, a, b)")
            connection.execute("insert into jobs values (1, 1, 0), (2, 0, 0)")
        connection.close()

    def work(self, *statements: str) -> None:
        connection = sqlite3.connect(self.path, timeout=20)
        try:
            with connection:
                connection.execute("begin immediate")
                for statement in statements:
                    connection.execute(statement)
        finally:
            connection.close()

    def asked(self, kind: str, **expected) -> Evidence:
        return Evidence(kind, "jobs", {"table": "jobs", **expected}, {"db_path": "world.db"})


class ColumnsApart(_Rows):
    """Two columns that are never right together."""

    def claim(self) -> Evidence:
        return self.asked("db_row", where={"id": 1}, values={"a": 1, "b": 1})

    def change(self) -> None:
        self.work("update jobs set a = 1 - a, b = 1 - b where id = 1")

    def tell_the_truth(self) -> None:
        self.work("update jobs set a = 1, b = 1")


class AlwaysOne(_Rows):
    """A row goes as another one comes: there is always one, and never two."""

    def claim(self) -> Evidence:
        return self.asked("db_row_count", where={"a": 1}, count=2)

    def change(self) -> None:
        self.work("update jobs set a = 1 - a")

    def tell_the_truth(self) -> None:
        self.work("update jobs set a = 1")


class NeverWithout(_Rows):
    """A row that moves about, and is always somewhere."""

    def claim(self) -> Evidence:
        return self.asked("db_row_absent", where={"a": 1})

    def change(self) -> None:
        self.work("delete from jobs where a = 1", f"insert into jobs values ({self.rng.randrange(3, 1 << 40)}, 1, 0)")

    def tell_the_truth(self) -> None:
        self.work("delete from jobs where a = 1")
