/* The tape: one log file that every process of a recorded run appends to.
 *
 * Rules: a call and its record happen under one lock, so the order on the tape is the order on the disk; a record
 * exists only when `end` in the header has moved past it, so a process killed while writing leaves no half record.
 * Which calls are recorded is not decided here: see recorder.c.
 */
#ifndef TAPE_H
#define TAPE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The order is the order of CALL_NAMES in tape.c, which the header carries: a reader needs no copy of this list. */
enum call {
    CALL_WRITE, CALL_PWRITE, CALL_WRITEV, CALL_TRUNCATE, CALL_FSYNC, CALL_FDATASYNC,
    CALL_RENAME, CALL_UNLINK, CALL_OPEN, CALL_MKDIR, CALL_LINK, CALL_ACK, CALLS
};

/* What a call did to the disk; one letter, so that a hex dump of the tape can be read. */
enum effect {
    DID_WRITE = 'W', DID_RESIZE = 'T', DID_SYNC = 'S', DID_CREATE = 'C', DID_MKDIR = 'D',
    DID_LINK = 'L', DID_SYMLINK = 'Y', DID_RENAME = 'R', DID_UNLINK = 'U', DID_ACK = 'A'
};

struct entry {
    enum call call;
    enum effect effect;
    int error;
    uint64_t inode;
    int64_t offset;
    const char *path, *other;
    const struct iovec *data;
    size_t bytes;
};

/* False until the log is open, and for ever when REC_LOG is not set: then every call passes through untouched. */
int tape_running(void);

/* Takes the lock, counts the call, and returns 0 or the errno it must fail with. A fault that is a signal is sent here. */
int tape_begin(enum call call);

/* Appends the record, if there is one, and releases the lock. Leaves errno alone. */
void tape_end(const struct entry *entry);

/* "fdatasync:3:5:0" = the third fdatasync from now fails with errno 5, once; an empty text disarms. The lock must be held. */
void tape_arm(const char *text);

#endif
