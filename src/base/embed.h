/* Files that were put into the library when it was built: kernel sources and the catalogue. */
#ifndef MD_BASE_EMBED_H
#define MD_BASE_EMBED_H
#include <stddef.h>
#include <stdint.h>
typedef struct md_embedded_file {
    const char *name; /* "host/prelude.h", "ops/..."; NULL ends the list */
    const char *bytes; /* a 0 follows them */
    size_t size; /* without that 0 */
} md_embedded_file;
extern const md_embedded_file md_embedded_files[];
/** Of all names and contents: part of every key of a compiled kernel. */
extern const uint64_t md_embedded_digest;
/** Of the sources of families, model and code generator, and all that they include: part of the key of what a model
 * said. */
extern const uint64_t md_source_identity;
/** The file's bytes, 0-terminated, owned by the library; NULL if there is none. `size` may be NULL. */
const char *md_embed_find(const char *name, size_t *size);
#endif
