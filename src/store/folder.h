/* Folders of a store: opened only where nobody else could have written them, and files that appear in them whole. */
#ifndef MD_STORE_FOLDER_H
#define MD_STORE_FOLDER_H

#include "base/hash.h"

#include <md/md.h>
#include <stdbool.h>

enum { MD_SR_PATH = 128 }; /* of a name below an environment's folder: "kernel/3f/3f..." */
#define MD_SR_FRESH ".fresh" /* where files are before they have their name, and after they lost it */

/* SYSTEMS: root's as well; the folder itself may be a link */
typedef enum md_sr_owner { MD_SR_USERS, MD_SR_SYSTEMS } md_sr_owner;

/** Opens a folder below `at` (AT_FDCWD: a path). NOT_FOUND; IO says why it is refused. */
md_status md_sr_folder_open(int *fd, int at, const char *path, md_sr_owner owner);
/** Makes it (0700), and all that is missing above where `with_parents`, then opens it as USERS. */
md_status md_sr_folder_make(int *fd, int at, const char *path, bool with_parents);

/** Where an entry lies: "kind/xx/digest"; a name of another form gives false. */
bool md_sr_path(char out[MD_SR_PATH], const char *kind, md_digest128 digest);
/** Reads a plain file that nobody else could have written; *out is malloc'ed, 0-terminated. NOT_FOUND, IO. `touches`:
 * it counts as used now. */
md_status md_sr_file_read(char **out, size_t *n, int at, const char *path, md_sr_owner owner, bool touches);
/** A name in MD_SR_FRESH that nobody else has: "prefix-0123456789abcdef". */
void md_sr_fresh_name(char out[MD_SR_PATH], const char *prefix);
/** Writes a file under a fresh name. `survives`: down to the disk. */
md_status md_sr_fresh_write(char name[MD_SR_PATH], int at, const void *bytes, size_t n, bool survives);
/** Writes a file under its name: whole or not at all, over an older one. Makes the folders on the way. */
md_status md_sr_file_write(int at, const char *path, const void *bytes, size_t n);

#endif
