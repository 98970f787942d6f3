-- Schema v30: the recovery registry. Applied as one transaction by the migration loader.
-- Every b-tree that a step touches costs a page in the write-ahead log, so tables are clustered by what is looked up and an
-- index exists only where a lookup uses it (docs/decisions/0003-layout.md). JSON is stored as bytes; times are ISO 8601 in UTC.

create table tasks (
    task_id          text primary key,
    status           text not null check (status in ('active', 'completed')),
    -- The counter: the last sequence number drawn. It only grows, so a number is never used twice.
    sequence         integer not null,
    -- The newest live checkpoint, and the newest live one whose last known verification passed; 0 when there is none.
    head             integer not null,
    verified_head    integer not null,
    -- The same per checkpoint type, as a JSON object; types beyond a bound are looked up on the timeline.
    verified_by_type blob not null,
    -- How many steps were open when this row was last written, and the newest key of all steps then. A begin does not write this
    -- row; both together tell an open step that the timeline's index hides from one that never was.
    open_steps       integer not null,
    counted_to       integer not null,
    -- The last number drawn before the task was started over: what is at or below it is history. 0 when that never happened.
    origin           integer not null default 0,
    -- Numbers at or below this one may be missing: they were pruned.
    pruned           integer not null default 0,
    -- A sum over the rows of `claims`: one that is changed, lost or made up is found before a world is folded from them.
    claims_sum       integer not null default 0,
    -- Who may resume: a token that only grows decides writes, expiry only permits a takeover.
    claim_holder     text,
    claim_token      integer not null default 0,
    claim_boot       text,
    claim_expires    real,
    claim_since      text,
    created_at       text not null,
    -- SHA-256 over the columns above: a changed byte is found when the row is read.
    seal             blob not null
) without rowid;

-- One row from begin to end. No blob of any size stands here: the row is rewritten when the step ends.
create table steps (
    -- 48 bits of the ULID's time and 15 of its random ones: new rows go to the end of the b-tree, where a page is filled and
    -- left behind without moving its neighbours.
    step_key         integer primary key,
    step_id          text not null,
    task_id          text not null,
    state            text not null check (state in ('begun', 'committed', 'adopted', 'abandoned')),
    -- Where it stands on the task's line: its sequence number; 2^62 while it is only begun, which puts it right behind the
    -- newest checkpoint in the index; 0 once abandoned.
    place            integer not null,
    checkpoint_type  text not null,
    work_item_id     text,
    -- The sequence number of the head it was begun on; 0 for the first.
    parent           integer not null,
    metadata         blob not null,
    base_path        text not null,
    host             text not null,
    -- The process that began it, so that a step under way is not taken for one that was interrupted.
    runner           text not null,
    -- The task's token when it was begun: it can be committed only while that is still the task's.
    token            integer not null,
    begun_at         text not null,
    begin_snapshot   integer,
    begin_sha256     blob not null,
    -- What an interrupted step would have left behind, and what was there when it began.
    expects          blob,
    baseline         blob,
    rerunnable       integer not null default 1,
    -- What ended the step's block, if it was an exception.
    error            text,
    -- From here on: set when the step ends.
    -- Null when the checkpoint carries the ULID of its step, which is the usual case and needs no index.
    checkpoint_id    text,
    pack             blob,
    commit_snapshot  integer,
    commit_sha256    blob,
    committed_at     text,
    -- Which call committed it: tells a lost answer from another caller's commit.
    nonce            text,
    -- SHA-256 over everything above that never changes again.
    digest           blob not null,
    -- From here on: what later verifications and rollbacks may change.
    verified         integer not null default 0,
    -- Whether a look ever verified it. A later look does not take that back.
    proven           integer not null default 0,
    verifications    integer not null default 0,
    -- The number of the verification whose results are shown; the first one is kept inline.
    shown            integer not null default 0,
    results          blob,
    last_verified_at text,
    superseded_by    text,
    deleted_at       text,
    -- SHA-256 over the digest and the columns that may change.
    seal             blob not null
);

create index steps_timeline on steps (task_id, place);
create unique index steps_named on steps (checkpoint_id) where checkpoint_id is not null;

-- The names that callers gave, once more: a name is looked up in the index, and its absence is asked here.
create table names (
    checkpoint_id text primary key,
    step_key      integer not null
) without rowid;

-- Insert-only: updating a column beside a large blob would write the blob again.
create table snapshots (
    snapshot_id integer primary key,
    codec       text not null,
    -- The snapshot this one is a difference to; null for a whole one.
    base_id     integer,
    sha256      blob not null,
    bytes       blob not null
);

-- Which step claims what: the index from which the world of a checkpoint is folded. Derived from the packs, can be rebuilt.
create table claims (
    task_id  text not null,
    subject  text not null,
    sequence integer not null,
    item     integer not null,
    lifetime text not null check (lifetime in ('lasting', 'step', 'task', 'release')),
    -- Where a relative subject lies.
    base     text not null,
    -- Whether its checkpoint is part of later worlds: it was proven, and not rolled back past.
    standing integer not null,
    -- Of a tree that leaves something out: the name of its rules, equal for equal rules.
    rules    text not null default '',
    primary key (task_id, subject, sequence, item)
) without rowid;

-- Append-only: every look after the first.
create table verifications (
    step_id text not null,
    number  integer not null,
    at      text not null,
    by      text not null,
    outcome text not null check (outcome in ('verified', 'failed', 'error')),
    -- 0 when a newer look had been recorded while this one was under way: kept, and decides nothing.
    counted integer not null,
    results blob not null,
    seal    blob not null,
    primary key (step_id, number)
) without rowid;

-- Append-only: what people, and recovery on their behalf, decided about a task.
create table decisions (
    task_id text not null,
    number  integer not null,
    at      text not null,
    by      text not null,
    what    text not null,
    -- The step, the checkpoint or the key it was about.
    about   text not null,
    reason  text not null,
    seal    blob not null,
    primary key (task_id, number)
) without rowid;

-- What must happen at most once. A row is there before the thing is done.
create table idempotency_keys (
    key          text primary key,
    task_id      text,
    request_hash text not null,
    state        text not null check (state in ('pending', 'done')),
    result       blob,
    -- What it would have left behind, and what was there before; where relative paths in both resolve.
    expects      blob,
    baseline     blob,
    base_path    text not null,
    -- The process that is doing it, and which of its calls; null once that call has come back.
    runner       text,
    created_at   text not null,
    seal         blob not null
) without rowid;

-- Which keys belong to a task; and once more by key, because a key that is not found is a call that is made.
create index idempotency_keys_of_task on idempotency_keys (task_id) where task_id is not null;
create index idempotency_keys_again on idempotency_keys (key, request_hash);

-- What a step said it would change, as it was when it began; its content is kept for as long as the step has not ended.
create table touched (
    step_id text primary key,
    things  blob not null,
    seal    blob not null
) without rowid;

-- The journal of restores: a row is there before anything is changed. What was overwritten and deleted is in it, by digest.
create table restores (
    restore_id    text primary key,
    task_id       text not null,
    checkpoint_id text not null,
    base_path     text not null,
    -- The folder in the base that holds what is on its way in and out.
    staging       text not null,
    operations    blob not null,
    state         text not null check (state in ('begun', 'applying', 'done', 'undone')),
    -- The restore that this one takes back.
    undoes        text,
    begun_at      text not null,
    ended_at      text,
    seal          blob not null
) without rowid;

create index restores_of_task on restores (task_id, begun_at);

-- Which folder each task works in, so that two of them do not work in one without knowing.
create table workspaces (
    task_id text primary key,
    path    text not null,
    shared  integer not null,
    -- What is left out of it by now, as a JSON list of lines; what a checkpoint left out is in its claim.
    exclude text not null,
    since   text not null,
    seal    blob not null
) without rowid;

create view checkpoints as
select
    coalesce(checkpoint_id, substr(step_id, 6)) as checkpoint_id,
    task_id, work_item_id, checkpoint_type, place as sequence_number, step_id, parent,
    verified, last_verified_at, verifications, committed_at as created_at, superseded_by, base_path, host
from steps
where state in ('committed', 'adopted') and deleted_at is null;
