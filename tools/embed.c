/* Build step: writes files as one C array of bytes with names, so that the library needs no data files where it runs.
 * Bytes, not string literals, whose length compilers limit. Usage: md_embed OUT.c [NAME FILE]...,
 * or md_embed --identity OUT.c FILE... for a digest of files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *path)
{
    fprintf(stderr, "md_embed: %s %s: %s\n", what, path, strerror(errno));
    return 1;
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t fnv1a(uint64_t digest, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return digest;
}

/* Writes one file as an array; its size goes to *size. */
static int embed(FILE *out, int number, const char *path, size_t *size, uint64_t *digest)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return fail("cannot read", path);
    unsigned char bytes[4096];
    size_t n = 0;
    *size = 0;
    fprintf(out, "static const unsigned char md_bytes_%d[] = {", number);
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0) {
        for (size_t i = 0; i < n; i++)
            fprintf(out, "%s%u,", (*size + i) % 32 ? "" : "\n", bytes[i]);
        *size += n;
        *digest = fnv1a(*digest, bytes, n);
    }
    fprintf(out, "\n0};\n\n"); /* a 0 behind each file: text can be read as a string */
    int failed = ferror(in);
    fclose(in);
    return failed ? fail("cannot read", path) : 0;
}

static int write_all(FILE *out, char **pair, int n_files, size_t *sizes)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    fprintf(out, "/* Written by tools/embed.c. */\n#include \"base/embed.h\"\n\n");
    for (int i = 0; i < n_files; i++) {
        const char *name = pair[2 * i];
        digest = fnv1a(digest, (const unsigned char *)name, strlen(name) + 1);
        if (embed(out, i, pair[2 * i + 1], &sizes[i], &digest))
            return 1;
    }
    fprintf(out, "const md_embedded_file md_embedded_files[] = {\n");
    for (int i = 0; i < n_files; i++)
        fprintf(out, "    {\"%s\", (const char *)md_bytes_%d, %zu},\n", pair[2 * i], i, sizes[i]);
    fprintf(out, "    {0, 0, 0},\n};\n\nconst uint64_t md_embedded_digest = UINT64_C(0x%016" PRIx64 ");\n", digest);
    return 0;
}

/* Writes a digest of the files' contents as md_source_identity. */
static int identify(const char *path, char **files, int n)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    unsigned char bytes[4096];
    for (int i = 0; i < n; i++) {
        FILE *in = fopen(files[i], "rb");
        if (!in)
            return fail("cannot read", files[i]);
        for (size_t got; (got = fread(bytes, 1, sizeof bytes, in)) > 0;)
            digest = fnv1a(digest, bytes, got);
        fclose(in);
    }
    FILE *out = fopen(path, "wb");
    if (!out)
        return fail("cannot write", path);
    fprintf(out,
            "/* Written by tools/embed.c. */\n#include \"base/embed.h\"\n\nconst uint64_t md_source_identity = "
            "UINT64_C(0x%016" PRIx64 ");\n",
            digest);
    return fclose(out) ? fail("cannot write", path) : 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--identity"))
        return identify(argv[2], argv + 3, argc - 3);
    if (argc < 2 || argc % 2 != 0) {
        fprintf(stderr, "usage: md_embed OUT.c [NAME FILE]...\n");
        return 2;
    }
    int n_files = (argc - 2) / 2;
    size_t *sizes = calloc((size_t)n_files + 1, sizeof *sizes);
    FILE *out = sizes ? fopen(argv[1], "wb") : NULL;
    int failed = out ? write_all(out, argv + 2, n_files, sizes) : fail("cannot write", argv[1]);
    if (out && (fclose(out) != 0) && !failed)
        failed = fail("cannot write", argv[1]);
    if (failed)
        remove(argv[1]);
    free(sizes);
    return failed;
}
