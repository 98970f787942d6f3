-- What a look at everything reads: each table from its own b-tree, and each index beside it. Loaded by named_sql.py.
-- The columns of a table come in the order in which its rows are sealed: that of the migration.

-- name: quick
pragma quick_check(100);

-- name: deep
pragma integrity_check(100);

-- name: tasks
select * from tasks not indexed;

-- name: steps
select * from steps not indexed;

-- name: names
select * from names not indexed;

-- name: snapshots
select * from snapshots not indexed;

-- name: claims
select task_id, subject, sequence, item, lifetime, base, standing, rules from claims not indexed;

-- name: verifications
select * from verifications not indexed order by step_id, number;

-- name: decisions
select * from decisions not indexed order by task_id, number;

-- name: idempotency_keys
select * from idempotency_keys not indexed;

-- name: touched
select * from touched not indexed;

-- name: restores
select * from restores not indexed;

-- name: workspaces
select * from workspaces not indexed;

-- name: schema_version
select component, number, name, checksum, applied_at from schema_version not indexed;

-- name: settlement
select only_row, settled from settlement not indexed;

-- name: objects
select name from sqlite_master where type in ('table', 'index', 'view', 'trigger');

-- name: version
pragma user_version;

-- What an index holds. What it should hold is known once its table was read.

-- name: steps_timeline
select task_id, place, step_key from steps indexed by steps_timeline;

-- name: steps_named
select checkpoint_id, step_key from steps indexed by steps_named where checkpoint_id is not null;

-- name: idempotency_keys_of_task
select task_id, key from idempotency_keys indexed by idempotency_keys_of_task where task_id is not null;

-- name: idempotency_keys_again
select key, request_hash from idempotency_keys indexed by idempotency_keys_again;

-- name: restores_of_task
select task_id, begun_at, restore_id from restores indexed by restores_of_task;
