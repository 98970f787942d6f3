-- Run store v1: bytes by run and node. A component of its own, so that it can share a file with a registry.
-- Times are whole microseconds since 1970 in UTC.

-- Which runs there are: written when a run begins and when it is deleted. It is what the other table's silence is checked
-- against, in a tree of pages of its own.
create table runs (
    run_id text primary key,
    -- SHA-256 over the column above.
    seal   blob not null
) without rowid;

create table run_nodes (
    run_id   text not null,
    -- Empty in the one row that is the run's own: its last sequence number, and in `size` how many nodes it has. It stands among
    -- its nodes because saving one then writes one page, and not two.
    node_id  text not null,
    sequence integer not null,
    size     integer not null,
    saved_at integer not null,
    -- The row of run_data that holds the bytes; 0 in the run's own row.
    data_id  integer not null,
    -- The first 16 bytes of a SHA-256 over run, node, sequence, size and time, so that a list can check a row without its bytes.
    seal     blob not null,
    primary key (run_id, node_id)
) without rowid;

-- The bytes stand apart, so that a list reads none of their pages. Each row says whose it is. The digest of the bytes stands
-- here too, on a page that a save makes anew anyway: the smaller the rows above, the fewer pages a save has to write.
create table run_data (
    data_id integer primary key,
    run_id  text not null,
    node_id text not null,
    -- SHA-256 over the bytes and then that whole digest of the node's row, so that they are the bytes of this row and of no
    -- earlier one.
    seal    blob not null,
    data    blob not null
);
