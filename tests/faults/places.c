/* Tell the files below REC_DIR, and the file of acknowledgements REC_ACK, from everything else.
 *
 * Rules: both are real paths, read once, so a program that edits its environment cannot leave the recording; a descriptor
 * is known by where it points now, so duplicated, inherited and renamed files need no table.
 * Nothing is recorded here: see recorder.c.
 */
#define _GNU_SOURCE
#include "places.h"
#include "tape.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX], acks[PATH_MAX];

__attribute__((constructor)) static void read_environment(void) {
    snprintf(root, sizeof root, "%s", getenv("REC_DIR") ? getenv("REC_DIR") : "");
    snprintf(acks, sizeof acks, "%s", getenv("REC_ACK") ? getenv("REC_ACK") : "");
}

static enum place place_of(const char *path, const char **relative) {
    size_t size = strlen(root);
    if (*acks && !strcmp(path, acks)) return ACKS;
    if (!size || strncmp(path, root, size) || (path[size] && path[size] != '/')) return ELSEWHERE;
    *relative = path[size] ? path + size + 1 : "";
    return BELOW;
}

static int real_path_of_fd(int fd, char path[PATH_MAX]) {
    static const char gone[] = " (deleted)";
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    size -= sizeof gone - 1;
    if (size > 0 && !strcmp(path + size, gone)) path[size] = 0;
    return 1;
}

enum place place_of_fd(int fd, char path[PATH_MAX], const char **relative) {
    int saved = errno, known = tape_running() && real_path_of_fd(fd, path);
    errno = saved;
    return known ? place_of(path, relative) : ELSEWHERE;
}

/* Resolves the parent and not the last component: rename and unlink act on the entry, not on what it points to. */
static int real_path_of_name(int dirfd, const char *name, char path[PATH_MAX]) {
    char joined[2 * PATH_MAX], base[PATH_MAX] = ".";
    if (!name || !*name || strlen(name) >= PATH_MAX) return 0;
    if (*name == '/') *base = 0;
    else if (dirfd != AT_FDCWD && !real_path_of_fd(dirfd, base)) return 0;
    snprintf(joined, sizeof joined, "%s/%s", base, name);
    for (size_t end = strlen(joined); end > 1 && joined[end - 1] == '/'; end--) joined[end - 1] = 0;
    char *slash = strrchr(joined, '/');
    *slash = 0;
    if (!realpath(*joined ? joined : "/", path) || strlen(path) + strlen(slash + 1) + 2 > PATH_MAX) return 0;
    if (path[1]) strcat(path, "/");
    strcat(path, slash + 1);
    return 1;
}

enum place place_of_path(int dirfd, const char *name, char path[PATH_MAX], const char **relative) {
    int saved = errno, known = tape_running() && real_path_of_name(dirfd, name, path);
    errno = saved;
    return known ? place_of(path, relative) : ELSEWHERE;
}

uint64_t inode_of_fd(int fd) {
    struct stat info;
    int saved = errno;
    uint64_t inode = fstat(fd, &info) ? 0 : info.st_ino;
    errno = saved;
    return inode;
}

uint64_t inode_of_path(int dirfd, const char *name) {
    struct stat info;
    int saved = errno;
    uint64_t inode = fstatat(dirfd, name, &info, AT_SYMLINK_NOFOLLOW) ? 0 : info.st_ino;
    errno = saved;
    return inode;
}
