/* Binaries of kernels as files in the folder MD_TEST_CUBINS, for scripts that disassemble them. */
#ifndef MD_TESTS_FAMILY_CUDA_KEEP_CUBIN_H
#define MD_TESTS_FAMILY_CUDA_KEEP_CUBIN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void keep_cubin(const char *name, int number, const void *binary, size_t n_bytes)
{
    const char *folder = getenv("MD_TEST_CUBINS");
    char path[512], *at;
    (void)snprintf(path, sizeof path, "%s/%d-%s.cubin", folder ? folder : "", number, name);
    at = folder ? strchr(path + strlen(folder) + 1, '/') : NULL;
    if (at)
        *at = '-';
    FILE *file = folder ? fopen(path, "wb") : NULL;
    if (file) {
        (void)fwrite(binary, 1, n_bytes, file);
        fclose(file);
    }
}

#endif
