/* Which files a recording is about. See places.c. */
#ifndef PLACES_H
#define PLACES_H

#include <limits.h>
#include <stdint.h>

enum place { ELSEWHERE, BELOW, ACKS };

/* `relative` points into `path`, at what follows REC_DIR; it is set only for BELOW. errno is left alone by all four. */
enum place place_of_fd(int fd, char path[PATH_MAX], const char **relative);
enum place place_of_path(int dirfd, const char *name, char path[PATH_MAX], const char **relative);
uint64_t inode_of_fd(int fd);
uint64_t inode_of_path(int dirfd, const char *name);

#endif
