/* Folders and files of a store. They are used only if no other user could have written them. */
#ifndef MD_STORE_FOLDER_H
#define MD_STORE_FOLDER_H

#include "base/hash.h"

#include <md/md.h>
#include <stdbool.h>

enum { MD_SR_PATH = 128 }; /* of a name below an environment's folder: "kernel/3f/3f..." */
#define MD_SR_FRESH ".fresh" /* folder of files that have no name yet, or no name any more */

/* SYSTEMS: may belong to root, and the folder may be a symbolic link */
typedef enum md_sr_owner { MD_SR_USERS, MD_SR_SYSTEMS } md_sr_owner;

/** Opens a folder below `at` (AT_FDCWD: a path). NOT_FOUND; IO says why it is refused. */
md_status md_sr_folder_open(int *fd, int at, const char *path, md_sr_owner owner);
/** Makes it (0700), and all that is missing above where `with_parents`, then opens it as USERS. */
md_status md_sr_folder_make(int *fd, int at, const char *path, bool with_parents);

/** Reads the name of an environment's folder: 32 hexadecimal digits. */
bool md_sr_parse_digest(md_digest128 *out, const char *text);
/** The path of an entry: "kind/xx/digest"; false for an invalid kind. */
bool md_sr_path(char out[MD_SR_PATH], const char *kind, md_digest128 digest);
/** Reads a plain file that no other user could have written; *out is malloc'ed and 0-terminated. `touches` marks it as
 * used. NOT_FOUND, IO. */
md_status md_sr_file_read(char **out, size_t *n, int at, const char *path, md_sr_owner owner, bool touches);
/** A name in MD_SR_FRESH that nobody else has: "prefix-0123456789abcdef". */
void md_sr_fresh_name(char out[MD_SR_PATH], const char *prefix);
/** Gives the file `aside` the name `path`, too. False: another file has it by now, which is newer and stays. */
bool md_sr_put_back(int at, const char *aside, const char *path);
/** Writes a file under a fresh name. `survives`: waits until it is on disk. */
md_status md_sr_fresh_write(char name[MD_SR_PATH], int at, const void *bytes, size_t n, bool survives);
/** Gives such a file its name, and replaces an older one. Makes missing folders. On failure it is removed. */
md_status md_sr_fresh_rename(int at, const char *fresh, const char *path);
/** Writes a file under its name, whole or not at all, and replaces an older one. Makes missing folders. */
md_status md_sr_file_write(int at, const char *path, const void *bytes, size_t n);
/** The same, but an older one stays: the file server decides, whatever this machine has cached. Where there are no hard
 * links it is replaced. */
md_status md_sr_file_add(bool *is_new, int at, const char *path, const void *bytes, size_t n);

#endif
