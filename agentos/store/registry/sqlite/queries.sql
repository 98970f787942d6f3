-- Every statement of the SQLite registry, by name. Loaded by agentos/store/named_sql.py.

-- name: task
select task_id, status, sequence, head, verified_head, verified_by_type, open_steps, counted_to,
       origin, pruned, claims_sum, claim_holder, claim_token, claim_boot, claim_expires, claim_since, created_at, seal
from tasks where task_id = ?;

-- name: insert_task
insert into tasks (task_id, status, sequence, head, verified_head, verified_by_type, open_steps, counted_to,
                   origin, pruned, claims_sum, claim_holder, claim_token, claim_boot, claim_expires, claim_since, created_at, seal)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- The seal covers every column, so this changes the row only if it is exactly the one that was remembered.
-- name: update_task
update tasks set status = ?, sequence = ?, head = ?, verified_head = ?, verified_by_type = ?, open_steps = ?, counted_to = ?,
                 origin = ?, pruned = ?, claims_sum = ?, claim_holder = ?, claim_token = ?, claim_boot = ?, claim_expires = ?,
                 claim_since = ?, seal = ?
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
insert or ignore into steps (step_key, step_id, task_id, state, place, checkpoint_type, work_item_id, parent, metadata, base_path, host,
                             runner, token, begun_at, begin_snapshot, begin_sha256, expects, baseline, rerunnable, digest, seal)
select ?, ?, ?, 'begun', 4611686018427387904, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
from tasks where task_id = ? and seal = ?;

-- name: step
select step_key, step_id, task_id, state, place, checkpoint_type, work_item_id, parent, metadata, base_path, host, runner, token, begun_at,
       begin_snapshot, begin_sha256, expects, baseline, rerunnable, error, checkpoint_id, pack, commit_snapshot, commit_sha256,
       committed_at, nonce, digest, verified, proven, verifications, shown, results, last_verified_at, superseded_by, deleted_at, seal
from steps where step_key = ?;

-- name: step_named
select step_key from steps where checkpoint_id = ?;

-- The same lookup without the table's own b-tree: a key damaged there must not read as "never was".
-- name: step_on_timeline
select 1 from steps indexed by steps_timeline where place > 0 and step_key = ?;

-- name: step_at
select step_key from steps where task_id = ? and place = ?;

-- name: steps_at
select step_key, step_id, task_id, state, place, checkpoint_type, work_item_id, parent, metadata, base_path, host, runner, token, begun_at,
       begin_snapshot, begin_sha256, expects, baseline, rerunnable, error, checkpoint_id, pack, commit_snapshot, commit_sha256,
       committed_at, nonce, digest, verified, proven, verifications, shown, results, last_verified_at, superseded_by, deleted_at, seal
from steps where task_id = ? and place in (select value from json_each(?));

-- name: timeline_down_from
select step_key, place from steps where task_id = ? and place <= ? and place > 0 order by place desc;

-- name: timeline_above
select step_key from steps where task_id = ? and place > ? and place < 4611686018427387904 order by place;

-- name: open_steps
select step_key from steps where task_id = ? and place = 4611686018427387904 order by step_key;

-- One pass over the index, whatever number of steps there are.
-- name: interrupted_tasks
select distinct task_id from steps where place = 4611686018427387904 order by task_id;

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
                 nonce = ?, digest = ?, verified = ?, proven = ?, verifications = ?, shown = ?, results = ?, last_verified_at = ?, seal = ?
where step_key = ? and seal = ?;

-- name: update_step
update steps set state = ?, place = ?, digest = ?, error = ?, verified = ?, proven = ?, verifications = ?, shown = ?, last_verified_at = ?, superseded_by = ?, deleted_at = ?,
                 begin_snapshot = ?, commit_snapshot = ?, seal = ?
where step_key = ?;

-- name: insert_claim
insert into claims (task_id, subject, sequence, item, lifetime, base, standing, rules) values (?, ?, ?, ?, ?, ?, ?, ?);

-- name: claims
select subject, sequence, item, lifetime, base, standing, rules from claims where task_id = ?;

-- name: set_standing
update claims set standing = ? where task_id = ? and sequence = ? and standing != ?;

-- name: claims_at
select subject, sequence, item, lifetime, base, standing, rules from claims where task_id = ? and sequence = ?;

-- name: claims_above
select subject, sequence, item, lifetime, base, standing, rules from claims where task_id = ? and sequence > ? and standing = 1;

-- name: unsettle_above
update claims set standing = 0 where task_id = ? and sequence > ? and standing = 1;

-- name: delete_claims
delete from claims where task_id = ? and sequence = ?;

-- name: later_claims
select sequence, item from claims where task_id = ? and subject = ? and sequence > ? order by sequence, item;

-- name: insert_verification
insert into verifications (step_id, number, at, by, outcome, counted, results, seal) values (?, ?, ?, ?, ?, ?, ?, ?);

-- name: verification
select step_id, number, at, by, outcome, counted, results, seal from verifications where step_id = ? and number = ?;

-- name: count_decisions
select count(*) from decisions where task_id = ?;

-- name: insert_decision
insert into decisions (task_id, number, at, by, what, about, reason, seal) values (?, ?, ?, ?, ?, ?, ?, ?);

-- name: decisions
select task_id, number, at, by, what, about, reason, seal from decisions where task_id = ? order by number;

-- name: once
select key, task_id, request_hash, state, result, expects, baseline, base_path, runner, created_at, seal
from idempotency_keys where key = ?;

-- The same lookup without the table's own b-tree.
-- name: once_again
select 1 from idempotency_keys indexed by idempotency_keys_again where key = ?;

-- name: insert_once
insert into idempotency_keys (key, task_id, request_hash, state, result, expects, baseline, base_path, runner, created_at, seal)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_once
update idempotency_keys set state = ?, result = ?, runner = ?, seal = ? where key = ?;

-- name: delete_once
delete from idempotency_keys where key = ?;

-- name: task_ids
select task_id from tasks order by task_id;

-- Ids that begin alike, for who types only their beginning: each is a range of the key that its table is clustered by.
-- name: tasks_beginning
select task_id from tasks where task_id >= ? and task_id < ? order by task_id limit ?;

-- name: restores_beginning
select restore_id from restores where restore_id >= ? and restore_id < ? order by restore_id limit ?;

-- name: names_beginning
select names.checkpoint_id from names join steps on steps.step_key = names.step_key
where names.checkpoint_id >= ? and names.checkpoint_id < ? and steps.deleted_at is null order by names.checkpoint_id limit ?;

-- name: steps_beginning
select step_id from steps where step_key between ? and ? order by step_key;

-- name: checkpoints_beginning
select substr(step_id, 6) from steps
where step_key between ? and ? and state in ('committed', 'adopted') and checkpoint_id is null and deleted_at is null
order by step_key;

-- name: abandoned
select step_key from steps where task_id = ? and place = 0;

-- name: delete_step
delete from steps where step_key = ?;

-- name: delete_name
delete from names where checkpoint_id = ?;

-- name: delete_verifications
delete from verifications where step_id = ?;

-- name: delete_old_verifications
delete from verifications where step_id = ? and number <= ? and number != ? and (? is null or at < ?);

-- name: delete_claim
delete from claims where task_id = ? and subject = ? and sequence = ? and item = ?;

-- name: insert_touched
insert into touched (step_id, things, seal) values (?, ?, ?);

-- name: touched
select step_id, things, seal from touched where step_id = ?;

-- name: delete_touched
delete from touched where step_id = ?;

-- name: insert_restore
insert into restores (restore_id, task_id, checkpoint_id, base_path, staging, operations, state, undoes, begun_at, ended_at, seal)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: restore
select restore_id, task_id, checkpoint_id, base_path, staging, operations, state, undoes, begun_at, ended_at, seal
from restores where restore_id = ?;

-- name: restores
select restore_id, task_id, checkpoint_id, base_path, staging, operations, state, undoes, begun_at, ended_at, seal
from restores where task_id = ? order by begun_at, restore_id;

-- name: all_restores
select restore_id, task_id, checkpoint_id, base_path, staging, operations, state, undoes, begun_at, ended_at, seal from restores;

-- name: update_restore
update restores set operations = ?, state = ?, ended_at = ?, seal = ? where restore_id = ?;

-- name: delete_old_restores
delete from restores where task_id = ? and state in ('done', 'undone') and begun_at < ?;

-- name: workspaces
select workspaces.task_id, path, shared, exclude, since, workspaces.seal, tasks.status
from workspaces left join tasks on tasks.task_id = workspaces.task_id;

-- name: put_workspace
insert into workspaces (task_id, path, shared, exclude, since, seal) values (?, ?, ?, ?, ?, ?)
on conflict (task_id) do update
set path = excluded.path, shared = excluded.shared, exclude = excluded.exclude, since = excluded.since, seal = excluded.seal;

-- The newest word of every other unfinished task on each of its files and trees.
-- name: claimed_elsewhere
select claims.task_id, subject, base, max(claims.sequence), lifetime
from claims join tasks on tasks.task_id = claims.task_id
where standing and tasks.status = 'active' and claims.task_id != ? and (subject glob 'file:*' or subject glob 'tree:*')
group by claims.task_id, subject, base
having lifetime in ('lasting', 'task');

-- Everything that kept content may be needed for: packs of what is on a timeline, deleted checkpoints included, and open steps.
-- name: needing
select step_key from steps where superseded_by is null and state != 'abandoned' and step_key > ? order by step_key;

-- Pages for people. Each is a range of the key or of the index that it is found by, from where the last page ended.
-- name: tasks_after
select task_id, status, sequence, head, verified_head, verified_by_type, open_steps, counted_to,
       origin, pruned, claims_sum, claim_holder, claim_token, claim_boot, claim_expires, claim_since, created_at, seal
from tasks where task_id > ? order by task_id limit ?;

-- The same of the timeline's index: a task that has steps has a row.
-- name: task_between
select task_id from steps where task_id > ? and task_id < ? order by task_id limit 1;

-- Reads past what is finished: an index would be one more page in every commit.
-- name: unfinished_after
select task_id, status, sequence, head, verified_head, verified_by_type, open_steps, counted_to,
       origin, pruned, claims_sum, claim_holder, claim_token, claim_boot, claim_expires, claim_since, created_at, seal
from tasks where task_id > ? and status = 'active' order by task_id limit ?;

-- name: count_open_to
select count(*), coalesce(sum(step_key <= ?), 0) from steps where task_id = ? and place = 4611686018427387904;

-- name: timeline_page
select step_key, place from steps where task_id = ? and place <= ? and place > 0 order by place desc limit ?;

-- name: newest_at
select step_key from steps where task_id = ? and place = ? and step_key < ? order by step_key desc limit ?;

-- name: looks_below
select step_id, number, at, by, outcome, counted, results, seal from verifications
where step_id = ? and number < ? order by number desc limit ?;

-- name: decisions_below
select task_id, number, at, by, what, about, reason, seal from decisions where task_id = ? and number < ? order by number desc limit ?;

-- name: restores_below
select restore_id, task_id, checkpoint_id, base_path, staging, operations, state, undoes, begun_at, ended_at, seal
from restores where task_id = ? and (begun_at, restore_id) < (?, ?) order by begun_at desc, restore_id desc limit ?;

-- name: steps_after
select step_key from steps where step_key > ? order by step_key limit ?;

-- name: snapshot_size
select coalesce(sum(length(bytes)), 0) from snapshots where snapshot_id in (?, ?);

-- One task with all that is its own, for an archive: each table in the order of its columns.

-- name: task_tasks
select * from tasks where task_id = ?;

-- name: task_touched
select touched.* from touched join steps on steps.step_id = touched.step_id where steps.task_id = ?;

-- name: task_steps
select * from steps where task_id = ? order by step_key;

-- name: task_snapshots
select * from snapshots where snapshot_id in (
    select begin_snapshot from steps where task_id = ?1 union select commit_snapshot from steps where task_id = ?1
) order by snapshot_id;

-- name: task_names
select names.* from names join steps on steps.step_key = names.step_key where steps.task_id = ?;

-- name: task_verifications
select * from verifications where step_id in (select step_id from steps where task_id = ?) order by step_id, number;

-- name: task_claims
select task_id, subject, sequence, item, lifetime, base, standing, rules from claims where task_id = ?;

-- name: task_decisions
select * from decisions where task_id = ? order by number;

-- name: task_idempotency_keys
select * from idempotency_keys where task_id = ?;

-- name: task_restores
select * from restores where task_id = ? order by begun_at, restore_id;

-- name: task_workspaces
select * from workspaces where task_id = ?;

-- name: import_step
insert into steps values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: import_snapshot
insert into snapshots (snapshot_id, codec, base_id, sha256, bytes) values (?, ?, ?, ?, ?);

-- name: newest_snapshot
select coalesce(max(snapshot_id), 0) from snapshots;
