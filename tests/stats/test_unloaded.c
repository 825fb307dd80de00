/* A program that loads the library, makes a context with MD_STATS and closes the library again: nothing of it may still
 * be called where it was. Argument: the library. */
#include <md/md.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *library;

/* 0 if a context was made and the library was closed. */
static int use_library(int destroys)
{
    md_status (*create)(md_context **, const md_context_options *) = NULL;
    void (*destroy)(md_context **) = NULL;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return 1;
    *(void **)&create = dlsym(handle, "md_context_create");
    *(void **)&destroy = dlsym(handle, "md_context_destroy");
    md_context *c = NULL;
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1, .cache_dir = ""};
    if (!create || !destroy || create(&c, &o) != MD_OK)
        return 2;
    if (destroys)
        destroy(&c);
    return dlclose(handle) ? 3 : 0;
}

/* Bit 0: the context is destroyed; bit 1: the end is SIGTERM. */
static int run(int way)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        const int failed = use_library(way & 1);
        if (!failed && (way & 2)) {
            raise(SIGTERM);
            for (;;)
                pause();
        }
        exit(failed);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return way & 2 ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM : status != 0;
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/md-test-unloaded-XXXXXX";
    library = argc > 1 ? argv[1] : "";
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    setenv("MD_STATS", path, 1);
    int n_wrong = 0;
    for (int way = 0; way < 4; way++) {
        const int is_wrong = ftruncate(fd, 0) != 0 || run(way) != 0;
        FILE *file = fopen(path, "r");
        const int is_empty = !file || fgetc(file) == EOF;
        if (file)
            fclose(file);
        n_wrong += is_wrong || is_empty;
        printf("way %d: %s, %s\n", way, is_wrong ? "wrong" : "ended as it should", is_empty ? "nothing" : "written");
        unlink(path); /* the next one is new */
    }
    close(fd);
    return n_wrong != 0;
}
