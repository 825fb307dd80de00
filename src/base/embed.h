/* Files embedded into the library at build time: kernel sources and the catalogue. */
#ifndef MD_BASE_EMBED_H
#define MD_BASE_EMBED_H
#include <stddef.h>
#include <stdint.h>
typedef struct md_embedded_file {
    const char *name; /* "host/prelude.h", "ops/..."; NULL ends the list */
    const char *bytes; /* followed by a 0 */
    size_t size; /* without that 0 */
} md_embedded_file;
extern const md_embedded_file md_embedded_files[];
/** Digest of all names and contents: part of the key of every compiled kernel. */
extern const uint64_t md_embedded_digest;
/** Digest of the sources of families, model and code generator, with everything they include: part of the key of a
 * model's estimate. */
extern const uint64_t md_source_identity;
/** The bytes of a file, 0-terminated and owned by the library; NULL if there is none. `size` may be NULL. */
const char *md_embed_find(const char *name, size_t *size);
#endif
