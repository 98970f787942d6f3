-- Every statement of the SQLite registry, by name. Loaded by agentos/store/named_sql.py.

-- name: task
select task_id, status, sequence, head, verified_head, verified_by_type, open_steps, counted_to,
       claim_holder, claim_token, claim_boot, claim_expires, created_at, seal
from tasks where task_id = ?;

-- name: insert_task
insert into tasks (task_id, status, sequence, head, verified_head, verified_by_type, open_steps, counted_to,
                   claim_holder, claim_token, claim_boot, claim_expires, created_at, seal)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- The seal covers every column, so this changes the row only if it is exactly the one that was remembered.
-- name: update_task
update tasks set status = ?, sequence = ?, head = ?, verified_head = ?, verified_by_type = ?, open_steps = ?, counted_to = ?,
                 seal = ?
where task_id = ? and seal = ?;

-- name: any_step_of_task
select 1 from steps where task_id = ? limit 1;

-- name: insert_snapshot
insert into snapshots (codec, sha256, bytes) values ('json', ?, ?);

-- name: delete_snapshot
delete from snapshots where snapshot_id = ?;

-- name: snapshot
select sha256, bytes, codec, base_id from snapshots where snapshot_id = ?;

-- Begins only on a task that is exactly the one that was remembered.
-- name: insert_step
insert or ignore into steps (step_key, step_id, task_id, state, place, checkpoint_type, work_item_id, parent, metadata, base_path, host, begun_at,
                   begin_snapshot, begin_sha256, digest, seal)
select ?, ?, ?, 'begun', 4611686018427387904, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
from tasks where task_id = ? and seal = ?;

-- name: step
select step_key, step_id, task_id, state, place, checkpoint_type, work_item_id, parent, metadata, base_path, host, begun_at,
       begin_snapshot, begin_sha256, expects, baseline, rerunnable, error, checkpoint_id, pack, commit_snapshot, commit_sha256,
       committed_at, nonce, digest, verified, verifications, shown, results, last_verified_at, superseded_by, deleted_at, seal
from steps where step_key = ?;

-- name: step_named
select step_key from steps where checkpoint_id = ?;

-- The same lookup without the table's own b-tree: a key damaged there must not read as "never was".
-- name: step_on_timeline
select 1 from steps indexed by steps_timeline where place > 0 and step_key = ?;

-- name: step_at
select step_key from steps where task_id = ? and place = ?;

-- name: timeline_down_from
select step_key, place from steps where task_id = ? and place <= ? and place > 0 order by place desc;

-- name: timeline_above
select step_key from steps where task_id = ? and place > ? and place < 4611686018427387904 order by place;

-- name: open_steps
select step_key from steps where task_id = ? and place = 4611686018427387904 order by step_key;

-- name: count_open
select count(*), (select coalesce(max(step_key), 0) from steps) from steps where task_id = ? and place = 4611686018427387904;

-- The same without the index that the list comes from: what began after the task's row was last written.
-- name: begun_since
select step_key from steps not indexed where step_key > ? and task_id = ? and place = 4611686018427387904;

-- name: insert_name
insert into names (checkpoint_id, step_key) values (?, ?);

-- name: name
select 1 from names where checkpoint_id = ?;

-- name: end_step
update steps set state = ?, place = ?, base_path = ?, checkpoint_id = ?, pack = ?, commit_snapshot = ?, commit_sha256 = ?, committed_at = ?,
                 nonce = ?, digest = ?, verified = ?, verifications = ?, shown = ?, results = ?, last_verified_at = ?, seal = ?
where step_key = ? and seal = ?;

-- name: update_step
update steps set error = ?, verified = ?, verifications = ?, shown = ?, last_verified_at = ?, superseded_by = ?, deleted_at = ?,
                 begin_snapshot = ?, commit_snapshot = ?, seal = ?
where step_key = ?;

-- name: insert_claim
insert into claims (task_id, subject, sequence, item, lifetime) values (?, ?, ?, ?, ?);

-- name: later_claims
select sequence, item from claims where task_id = ? and subject = ? and sequence > ? order by sequence, item;

-- name: insert_verification
insert into verifications (step_id, number, at, by, outcome, counted, results, seal) values (?, ?, ?, ?, ?, ?, ?, ?);

-- name: verification
select step_id, number, at, by, outcome, counted, results, seal from verifications where step_id = ? and number = ?;
