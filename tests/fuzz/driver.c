/* Runs a fuzz target over files and folders, where no fuzzer is: corpora are ordinary tests. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 20 };

static int n_run;

static int run_file(const char *path)
{
    static uint8_t bytes[MAX_BYTES];
    FILE *const f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    if (getenv("FUZZ_VERBOSE"))
        fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(bytes, n); /* aborts where something is wrong */
    ++n_run;
    return 0;
}

static int run_path(const char *path)
{
    struct stat s;
    if (stat(path, &s) == 0 && !S_ISDIR(s.st_mode))
        return run_file(path);
    DIR *const d = opendir(path);
    if (!d) {
        perror(path);
        return 1;
    }
    int failed = 0;
    for (const struct dirent *e = readdir(d); e && !failed; e = readdir(d)) {
        char inner[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        failed = run_path(inner);
    }
    closedir(d);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; ++i)
        failed |= run_path(argv[i]);
    printf("%d inputs\n", n_run);
    return failed || n_run == 0;
}
