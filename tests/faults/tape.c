/* The shared header of the tape, its lock, its counters and the one armed fault.
 *
 * Rules: the lock lives in the file, is shared by all processes and survives the death of its holder; a tape that cannot
 * be written aborts the run, because a recording with a hole would call a broken store sound.
 * It knows nothing of paths: see recorder.c.
 */
#define _GNU_SOURCE
#include "tape.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEADER_BYTES 4096
#define LOWEST_FD 200 /* out of the way of programs that count on small descriptor numbers */

static const char CALL_NAMES[CALLS][12] = {
    "write", "pwrite", "writev", "truncate", "fsync", "fdatasync",
    "rename", "unlink", "open", "mkdir", "link", "ack"
};

/* The part up to `names` is read by tape.py; what follows is ours alone. */
struct header {
    char magic[8];
    uint64_t end;
    uint64_t fired;
    uint64_t totals[16];
    char names[16][12];
    struct { int call; unsigned nth, seen; int action, lasting; } fault;
    pthread_mutex_t lock;
};

struct record {
    uint32_t size;
    int32_t pid, error;
    uint16_t path_size, other_size;
    uint64_t inode;
    int64_t offset;
    uint8_t call;
    char effect;
    char pad[6];
};

static struct header *header;
static int tape_fd = -1;
static int count_only;

static void die(const char *what) {
    dprintf(2, "recorder: %s: %s\n", what, strerror(errno));
    abort();
}

static void prepare_header(void) {
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&header->lock, &shared);
    memcpy(header->names, CALL_NAMES, sizeof CALL_NAMES);
    header->end = HEADER_BYTES;
    tape_arm(getenv("REC_FAULT") ? getenv("REC_FAULT") : "");
    memcpy(header->magic, "agostape", 8);
}

__attribute__((constructor)) static void open_tape(void) {
    const char *path = getenv("REC_LOG");
    if (!path) return;
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || (tape_fd = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD)) < 0) die("REC_LOG cannot be opened");
    close(fd);
    /* Several programs may start at once; only the first one may initialise the lock. */
    flock(tape_fd, LOCK_EX);
    if (lseek(tape_fd, 0, SEEK_END) < HEADER_BYTES && syscall(SYS_ftruncate, tape_fd, HEADER_BYTES)) die("REC_LOG cannot grow");
    struct header *mapped = mmap(NULL, HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, tape_fd, 0);
    if (mapped == MAP_FAILED) die("REC_LOG cannot be mapped");
    header = mapped;
    if (memcmp(header->magic, "agostape", 8)) prepare_header();
    flock(tape_fd, LOCK_UN);
    count_only = getenv("REC_COUNT") != NULL;
}

int tape_running(void) { return header != NULL; }

static void take_lock(void) {
    int problem = pthread_mutex_lock(&header->lock);
    /* The holder was killed: what it had not finished is not on the tape, and the header is whole. */
    if (problem == EOWNERDEAD) problem = pthread_mutex_consistent(&header->lock);
    if (problem) { errno = problem; die("the lock of the tape is broken"); }
}

void tape_arm(const char *text) {
    char name[12] = "";
    int action = 0, lasting = 0;
    unsigned nth = 0;
    memset(&header->fault, 0, sizeof header->fault);
    header->fault.call = -1;
    if (sscanf(text, "%11[a-z]:%u:%d:%d", name, &nth, &action, &lasting) != 4) return;
    for (int call = 0; call < CALL_ACK; call++)
        if (!strcmp(name, CALL_NAMES[call])) header->fault.call = call;
    header->fault.nth = nth;
    header->fault.action = action;
    header->fault.lasting = lasting;
}

static int fault_for(enum call call) {
    if (header->fault.call != (int)call) return 0;
    unsigned seen = ++header->fault.seen;
    if (seen != header->fault.nth && !(header->fault.lasting && seen > header->fault.nth)) return 0;
    header->fired++;
    return header->fault.action;
}

int tape_begin(enum call call) {
    take_lock();
    header->totals[call]++;
    int action = fault_for(call);
    if (action >= 0) return action;
    /* A stopped process must not stop the others of the run with it, so the signal arrives without the lock. */
    pthread_mutex_unlock(&header->lock);
    kill(getpid(), -action);
    take_lock();
    return 0;
}

static void put(const void *bytes, size_t size, uint64_t *at) {
    if (size && syscall(SYS_pwrite64, tape_fd, bytes, size, *at) != (long)size) die("REC_LOG cannot be written");
    *at += size;
}

static void append(const struct entry *entry) {
    uint64_t at = header->end;
    size_t left = entry->bytes;
    struct record record = {
        .pid = getpid(), .error = entry->error, .inode = entry->inode, .offset = entry->offset,
        .path_size = entry->path ? strlen(entry->path) : 0, .other_size = entry->other ? strlen(entry->other) : 0,
        .call = entry->call, .effect = entry->effect,
    };
    record.size = sizeof record + record.path_size + record.other_size + left;
    put(&record, sizeof record, &at);
    put(entry->path, record.path_size, &at);
    put(entry->other, record.other_size, &at);
    for (const struct iovec *piece = entry->data; left; piece++) {
        size_t size = piece->iov_len < left ? piece->iov_len : left;
        put(piece->iov_base, size, &at);
        left -= size;
    }
    header->end = at;
}

void tape_end(const struct entry *entry) {
    int saved = errno;
    if (entry && !count_only) append(entry);
    pthread_mutex_unlock(&header->lock);
    errno = saved;
}
