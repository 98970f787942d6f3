/* An LD_PRELOAD library that puts every change to files below REC_DIR on the tape, in one order with the acknowledgements.
 *
 * Rules: every variant of a call comes down to one core; a call that failed is recorded with its error; a line written to
 * REC_ACK is an acknowledgement, and one that starts with '!' arms a fault (tape.h); nothing elsewhere waits for the lock.
 * Not seen: stdio, writable mappings, io_uring, raw syscalls, data written with O_SYNC counts as unsynced. record.py
 * compares the end of a recording with the real directory, so what came another way is reported and not overlooked.
 */
#define _GNU_SOURCE
#include "places.h"
#include "tape.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COPY_BYTES (1 << 16)

/* Evaluates the real call only if no fault is due; the lock is held afterwards, until tape_end. */
#define ATTEMPT(call, real) ({ int fault_ = tape_begin(call); fault_ ? (errno = fault_, -1L) : (long)(real); })
#define ERROR_OF(result) ((result) < 0 ? errno : 0)

/* Where a write landed: an appending descriptor ignores the offset it was given, and moves only for write and writev. */
static int64_t landed_at(int fd, long written, int64_t offset) {
    struct stat info;
    if (offset < 0) return lseek(fd, 0, SEEK_CUR) - written;
    if (!(fcntl(fd, F_GETFL) & O_APPEND) || fstat(fd, &info)) return offset;
    return info.st_size - written;
}

static void arm_from(const struct iovec *line) {
    char text[64] = "";
    memcpy(text, line->iov_base, line->iov_len < sizeof text ? line->iov_len : sizeof text - 1);
    if (*text == '!') tape_arm(text + 1);
}

/* Acknowledgements are never made to fail, and are no write-class calls of the program under test. */
static ssize_t record_ack(int fd, const struct iovec *data, int pieces) {
    ssize_t written = ATTEMPT(CALL_ACK, syscall(SYS_writev, fd, data, (long)pieces));
    if (written > 0) arm_from(data);
    tape_end(&(struct entry){.call = CALL_ACK, .effect = DID_ACK, .error = ERROR_OF(written),
                             .data = data, .bytes = written > 0 ? written : 0});
    return written;
}

/* Every way of writing comes through here; offset -1 means at the descriptor's own position. */
static ssize_t put(enum call call, int fd, const struct iovec *data, int pieces, int64_t offset, int flags) {
    char path[PATH_MAX];
    const char *relative;
    enum place place = place_of_fd(fd, path, &relative);
    if (place == ACKS) return record_ack(fd, data, pieces);
    if (place == ELSEWHERE) return syscall(SYS_pwritev2, fd, data, (long)pieces, offset, 0L, flags);
    ssize_t written = ATTEMPT(call, syscall(SYS_pwritev2, fd, data, (long)pieces, offset, 0L, flags));
    tape_end(&(struct entry){.call = call, .effect = DID_WRITE, .error = ERROR_OF(written), .inode = inode_of_fd(fd),
                             .offset = written > 0 ? landed_at(fd, written, offset) : offset, .path = relative,
                             .data = data, .bytes = written > 0 ? written : 0});
    return written;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    return put(CALL_WRITE, fd, &(struct iovec){(void *)bytes, size}, 1, -1, 0);
}
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    if (at < 0) return errno = EINVAL, -1;
    return put(CALL_PWRITE, fd, &(struct iovec){(void *)bytes, size}, 1, at, 0);
}
ssize_t pwritev64v2(int fd, const struct iovec *data, int pieces, off64_t at, int flags) {
    return put(CALL_WRITEV, fd, data, pieces, at, flags);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { return pwrite64(fd, bytes, size, at); }
ssize_t writev(int fd, const struct iovec *data, int pieces) { return pwritev64v2(fd, data, pieces, -1, 0); }
ssize_t pwritev64(int fd, const struct iovec *data, int pieces, off64_t at) { return pwritev64v2(fd, data, pieces, at, 0); }
ssize_t pwritev(int fd, const struct iovec *data, int pieces, off_t at) { return pwritev64v2(fd, data, pieces, at, 0); }
ssize_t pwritev2(int fd, const struct iovec *data, int pieces, off_t at, int flags) {
    return pwritev64v2(fd, data, pieces, at, flags);
}

/* The kernel's own copies never show their bytes, so a copy into a recorded file is made by hand, a piece at a time. */
static ssize_t copy_by_hand(int from, off64_t *from_at, int to, off64_t *to_at, size_t size) {
    static __thread char buffer[COPY_BYTES];
    off64_t at = from_at ? *from_at : lseek(from, 0, SEEK_CUR);
    ssize_t got = syscall(SYS_pread64, from, buffer, size < COPY_BYTES ? size : COPY_BYTES, at);
    if (got <= 0) return got;
    ssize_t written = put(CALL_WRITE, to, &(struct iovec){buffer, got}, 1, to_at ? *to_at : -1, 0);
    if (written <= 0) return written;
    if (from_at) *from_at += written;
    else lseek(from, written, SEEK_CUR);
    if (to_at) *to_at += written;
    return written;
}

ssize_t sendfile64(int to, int from, off64_t *from_at, size_t size) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_fd(to, path, &relative) == ELSEWHERE) return syscall(SYS_sendfile, to, from, from_at, size);
    return copy_by_hand(from, from_at, to, NULL, size);
}
ssize_t sendfile(int to, int from, off_t *from_at, size_t size) { return sendfile64(to, from, from_at, size); }

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_fd(to, path, &relative) != ELSEWHERE) return copy_by_hand(from, from_at, to, to_at, size);
    return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}

static int ended_resize(int result, uint64_t inode, off64_t size, const char *path) {
    tape_end(&(struct entry){.call = CALL_TRUNCATE, .effect = DID_RESIZE, .error = ERROR_OF(result), .inode = inode,
                             .offset = size, .path = path});
    return result;
}

int ftruncate64(int fd, off64_t size) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_fd(fd, path, &relative) != BELOW) return syscall(SYS_ftruncate, fd, size);
    int result = ATTEMPT(CALL_TRUNCATE, syscall(SYS_ftruncate, fd, size));
    return ended_resize(result, inode_of_fd(fd), size, relative);
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int truncate64(const char *name, off64_t size) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_path(AT_FDCWD, name, path, &relative) != BELOW) return syscall(SYS_truncate, name, size);
    int result = ATTEMPT(CALL_TRUNCATE, syscall(SYS_truncate, name, size));
    return ended_resize(result, inode_of_path(AT_FDCWD, name), size, relative);
}
int truncate(const char *name, off_t size) { return truncate64(name, size); }

/* Returns the error instead of setting errno: that is this function's contract, unlike all others here. */
int posix_fallocate64(int fd, off64_t at, off64_t size) {
    char path[PATH_MAX];
    const char *relative;
    struct stat info;
    int saved = errno, result;
    int below = place_of_fd(fd, path, &relative) == BELOW, grows = below && !fstat(fd, &info) && info.st_size < at + size;
    if (!grows) result = syscall(SYS_fallocate, fd, 0, at, size);
    else result = ended_resize(ATTEMPT(CALL_TRUNCATE, syscall(SYS_fallocate, fd, 0, at, size)), info.st_ino, at + size, relative);
    int problem = ERROR_OF(result);
    errno = saved;
    return problem;
}
int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }

static int record_sync(enum call call, long number, int fd) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_fd(fd, path, &relative) != BELOW) return syscall(number, fd);
    int result = ATTEMPT(call, syscall(number, fd));
    tape_end(&(struct entry){.call = call, .effect = DID_SYNC, .error = ERROR_OF(result), .inode = inode_of_fd(fd),
                             .path = relative});
    return result;
}
int fsync(int fd) { return record_sync(CALL_FSYNC, SYS_fsync, fd); }
int fdatasync(int fd) { return record_sync(CALL_FDATASYNC, SYS_fdatasync, fd); }

/* A file that is new, or was emptied, is a change; opening one that is there is none. */
static int record_open(int dirfd, const char *name, int flags, mode_t mode, const char *relative) {
    struct stat before = {0};
    int existed = 0, nameless = (flags & O_TMPFILE) == O_TMPFILE;
    /* Looked up under the lock: whether this call or another process's created the file must be certain. */
    int fd = ATTEMPT(CALL_OPEN, (existed = !nameless && !fstatat(dirfd, name, &before, 0), errno = 0,
                                 syscall(SYS_openat, dirfd, name, flags, mode)));
    int changed = fd < 0 || !existed || ((flags & O_TRUNC) && before.st_size);
    struct entry entry = {.call = CALL_OPEN, .effect = existed ? DID_RESIZE : DID_CREATE, .error = ERROR_OF(fd),
                          .inode = fd < 0 ? 0 : inode_of_fd(fd), .path = nameless ? "" : relative};
    tape_end(changed ? &entry : NULL);
    return fd;
}

static int open_at(int dirfd, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    const char *relative;
    int changing = (flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE;
    if (!changing || place_of_path(dirfd, name, path, &relative) != BELOW)
        return syscall(SYS_openat, dirfd, name, flags, mode);
    return record_open(dirfd, name, flags, mode, relative);
}

#define OPENING(function, first, dirfd)                                             \
    int function(first const char *name, int flags, ...) {                          \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;     \
        va_end(rest);                                                               \
        return open_at(dirfd, name, flags, mode);                                   \
    }
#define IN_DIRECTORY int directory,
OPENING(open, , AT_FDCWD)
OPENING(open64, , AT_FDCWD)
OPENING(openat, IN_DIRECTORY, directory)
OPENING(openat64, IN_DIRECTORY, directory)

/* A rename across the border of REC_DIR is recorded as the half of it that lies inside. */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    char from_path[PATH_MAX], to_path[PATH_MAX];
    const char *source, *target;
    int leaves = place_of_path(from_dir, from, from_path, &source) == BELOW;
    int enters = place_of_path(to_dir, to, to_path, &target) == BELOW;
    if (!leaves && !enters) return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
    uint64_t inode = inode_of_path(from_dir, from);
    int result = ATTEMPT(CALL_RENAME, syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
    tape_end(&(struct entry){.call = CALL_RENAME, .effect = enters ? DID_RENAME : DID_UNLINK, .error = ERROR_OF(result),
                             .inode = inode, .offset = flags, .path = leaves ? source : "", .other = enters ? target : ""});
    return result;
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) { return renameat2(from_dir, from, to_dir, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int dirfd, const char *name, int flags) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_path(dirfd, name, path, &relative) != BELOW) return syscall(SYS_unlinkat, dirfd, name, flags);
    int result = ATTEMPT(CALL_UNLINK, syscall(SYS_unlinkat, dirfd, name, flags));
    tape_end(&(struct entry){.call = CALL_UNLINK, .effect = DID_UNLINK, .error = ERROR_OF(result), .path = relative});
    return result;
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int dirfd, const char *name, mode_t mode) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_path(dirfd, name, path, &relative) != BELOW) return syscall(SYS_mkdirat, dirfd, name, mode);
    int result = ATTEMPT(CALL_MKDIR, syscall(SYS_mkdirat, dirfd, name, mode));
    tape_end(&(struct entry){.call = CALL_MKDIR, .effect = DID_MKDIR, .error = ERROR_OF(result),
                             .inode = result ? 0 : inode_of_path(dirfd, name), .path = relative});
    return result;
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_path(to_dir, to, path, &relative) != BELOW) return syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
    int result = ATTEMPT(CALL_LINK, syscall(SYS_linkat, from_dir, from, to_dir, to, flags));
    tape_end(&(struct entry){.call = CALL_LINK, .effect = DID_LINK, .error = ERROR_OF(result),
                             .inode = result ? 0 : inode_of_path(to_dir, to), .path = relative});
    return result;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int symlinkat(const char *target, int dirfd, const char *name) {
    char path[PATH_MAX];
    const char *relative;
    if (place_of_path(dirfd, name, path, &relative) != BELOW) return syscall(SYS_symlinkat, target, dirfd, name);
    int result = ATTEMPT(CALL_LINK, syscall(SYS_symlinkat, target, dirfd, name));
    tape_end(&(struct entry){.call = CALL_LINK, .effect = DID_SYMLINK, .error = ERROR_OF(result), .path = relative,
                             .other = target});
    return result;
}
int symlink(const char *target, const char *name) { return symlinkat(target, AT_FDCWD, name); }
