/* Finds files that were embedded into the library. */
#include "base/embed.h"

#include <string.h>

const char *md_embed_find(const char *name, size_t *size)
{
    for (const md_embedded_file *file = md_embedded_files; file->name; file++) {
        if (strcmp(file->name, name) == 0) {
            if (size)
                *size = file->size;
            return file->bytes;
        }
    }
    return NULL;
}
