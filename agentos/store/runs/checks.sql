-- What a look at everything reads of the run stores, each table from its own b-tree. Loaded by named_sql.py.

-- name: runs
select run_id, seal from runs not indexed;

-- name: run_nodes
select run_id, node_id, sequence, size, saved_at, seal, data_id from run_nodes not indexed;

-- name: run_data
select data_id, run_id, node_id, seal, data from run_data not indexed;
