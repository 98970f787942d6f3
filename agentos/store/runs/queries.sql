-- Every statement of the SQLite run store, by name. Loaded by agentos/store/named_sql.py.
-- The row without a node id is the run's own; see store/migrations/sqlite/runs_v1_run_store.sql.

-- name: schema
select max(number) from schema_version where component = 'runs';

-- The next number, for a node that is not there yet. Nothing changes if the schema or the run's own row is another than is given.
-- name: draw_for_new
update run_nodes set sequence = ?3, size = ?4, saved_at = ?5, seal = ?6
where run_id = ?1 and node_id = '' and seal = ?8
  and not exists (select 1 from run_nodes where run_id = ?1 and node_id = ?2)
  and ?7 = (select max(number) from schema_version where component = 'runs');

-- One statement for all that a save must know if that was in vain.
-- name: before_save
select (select max(number) from schema_version where component = 'runs'),
       own.sequence, own.size, own.saved_at, own.seal, node.data_id
from (select 1)
left join run_nodes own on own.run_id = ?1 and own.node_id = ''
left join run_nodes node on node.run_id = ?1 and node.node_id = ?2;

-- name: insert_run
insert into runs (run_id, seal) values (?, ?);

-- name: run
select seal from runs where run_id = ?;

-- name: insert_data
insert into run_data (run_id, node_id, seal, data) values (?, ?, ?, ?);

-- name: insert_row
insert into run_nodes (run_id, node_id, sequence, size, saved_at, data_id, seal) values (?, ?, ?, ?, ?, ?, ?);

-- Only if the row is the node's: a damaged data_id must not lead to somebody else's bytes.
-- name: replace_data
update run_data set seal = ?, data = ? where data_id = ? and run_id = ? and node_id = ?;

-- name: put_rows
insert into run_nodes (run_id, node_id, sequence, size, saved_at, data_id, seal)
values (?1, '', ?2, ?3, ?4, 0, ?5), (?1, ?6, ?2, ?7, ?4, ?8, ?9)
on conflict (run_id, node_id) do update
set sequence = excluded.sequence, size = excluded.size, saved_at = excluded.saved_at, data_id = excluded.data_id,
    seal = excluded.seal;

-- name: update_own
update run_nodes set size = ?, seal = ? where run_id = ? and node_id = '';

-- name: row
select run_id, node_id, sequence, size, saved_at, seal, data_id
from run_nodes where run_id = ? and node_id = ?;

-- Not written as a comparison of two pairs: that would be checked again row by row, and step over the damaged row it is to find.
-- name: row_before
select run_id, node_id, sequence, size, saved_at, seal
from run_nodes where run_id = ? and node_id < ? order by node_id desc limit 1;

-- name: row_after
select run_id, node_id, sequence, size, saved_at, seal
from run_nodes where run_id = ? and node_id > ? order by node_id limit 1;

-- name: data
select data, seal from run_data where data_id = ? and run_id = ? and node_id = ?;

-- name: rows_of_run
select run_id, node_id, sequence, size, saved_at, seal from run_nodes where run_id = ?;

-- name: count_of_run
select count(*) from run_nodes where run_id = ?;

-- name: runs
select runs.run_id, runs.seal, own.run_id, own.node_id, own.sequence, own.size, own.saved_at, own.seal
from runs left join run_nodes own on own.run_id = runs.run_id and own.node_id = ''
order by runs.run_id;

-- How many runs the nodes belong to, by leaping from one run to the next: a run that is missing in `runs` shows here.
-- name: count_of_runs
with recursive each (run_id) as (
    select min(run_id) from run_nodes
    union all
    select (select min(run_id) from run_nodes where run_nodes.run_id > each.run_id) from each where each.run_id is not null
)
select count(run_id) from each;

-- name: delete_data
delete from run_data where data_id = ? and run_id = ? and node_id = ?;

-- name: delete_row
delete from run_nodes where run_id = ? and node_id = ?;

-- name: delete_data_of_run
delete from run_data where run_id = ?1 and data_id in (select data_id from run_nodes where run_id = ?1);

-- name: delete_rows_of_run
delete from run_nodes where run_id = ?;

-- name: delete_run
delete from runs where run_id = ?;
