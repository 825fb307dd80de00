/* Every two public functions of one context against each other, from two threads: for ThreadSanitizer, which sees the
 * races; without it only a crash or a hang is seen. Without SECONDS some pairs, else one after the other. --list prints
 * the functions. See random.h for the other arguments. */
#include "fuzz/pairs.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { HANG_SECONDS = 240, TIMES = 3 };

static void require(md_status s, const char *what)
{
    if (s == MD_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, md_status_name(s), md_last_error());
    exit(1);
}

static int keep(void *user, const char *text, size_t n_bytes)
{
    *(char **)user = strndup(text, n_bytes);
    return 0;
}

static void open_world(pair_world *w)
{
    md_tensor tensor[3];
    md_arg arg[3];
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "/tmp/md-pairs-XXXXXX");
    if (!mkdtemp(w->folder))
        exit(1);
    for (int i = 0; i < 2 * PAIR_N * PAIR_N; i++)
        w->input[i / (PAIR_N * PAIR_N)][i % (PAIR_N * PAIR_N)] = (float)(i % 7) - 3.0f;
    const md_context_options o = {.device = "host", .threads = 2, .hints = "8", .cache_dir = w->folder};
    require(md_context_create(&w->context, &o), "md_context_create");
    for (int i = 0; i < PAIR_OPS; i++)
        require(md_op_create(&w->op[i], w->context, pair_formulas[i],
                             &(md_op_options){.max_variants = 2, .select = pair_modes[i], .constant = i ? NULL : "B"}),
                pair_formulas[i]);
    pair_thread t = {.world = w};
    pair_arguments(arg, tensor, &t, w->op[0], false);
    require(md_resolve(&w->launch, w->op[0], arg, 3), "md_resolve");
    require(md_wisdom_export(w->context, keep, &w->wisdom), "md_wisdom_export");
}

static void close_world(pair_world *w)
{
    char command[96];
    md_launch_destroy(&w->launch);
    for (int i = 0; i < PAIR_OPS; i++)
        md_op_destroy(&w->op[i]);
    md_context_destroy(&w->context);
    free(w->wisdom);
    snprintf(command, sizeof command, "rm -rf %s", w->folder);
    if (system(command) != 0)
        fprintf(stderr, "%s is left\n", w->folder);
}

/* ---- Two threads */

typedef struct job {
    pair_thread thread;
    const pair_action *action;
    pthread_barrier_t *start;
} job;

static void *run_job(void *user)
{
    job *j = user;
    (void)pthread_barrier_wait(j->start);
    for (int i = 0; i < TIMES; i++)
        j->action->run(&j->thread);
    return NULL;
}

static int64_t run_pair(pair_world *w, fuzz_run *f, const pair_action *a, const pair_action *b)
{
    static job j[2];
    pthread_t thread[2];
    pthread_barrier_t start;
    const pair_action *action[2] = {a, b};
    alarm(HANG_SECONDS);
    if (getenv("FUZZ_VERBOSE"))
        fprintf(stderr, "%s | %s\n", a->name, b->name);
    pthread_barrier_init(&start, NULL, 2);
    for (int i = 0; i < 2; i++) {
        j[i] = (job){.thread = {.world = w, .run = {.random = fuzz_next(f)}}, .action = action[i], .start = &start};
        if (pthread_create(&thread[i], NULL, run_job, &j[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&start);
    return j[0].thread.n_failed + j[1].thread.n_failed;
}

int main(int argc, char **argv)
{
    static pair_world w;
    int32_t n = 0;
    int64_t n_failed = 0;
    for (; pair_actions[n].name; n++)
        if (argc > 1 && !strcmp(argv[1], "--list"))
            puts(pair_actions[n].name);
    if (argc > 1 && !strcmp(argv[1], "--list"))
        return 0;
    fuzz_run f = fuzz_start(argc, argv, 150);
    const int64_t first = fuzz_below(&f, n * n);
    setenv("MD_LOG", "none", 0);
    open_world(&w);
    for (int64_t i = first; fuzz_goes_on(&f); i++) {
        const int64_t pair = f.end ? i : fuzz_below(&f, n * n);
        n_failed += run_pair(&w, &f, &pair_actions[pair / n % n], &pair_actions[pair % n]);
    }
    close_world(&w);
    printf("%lld pairs of %d, %lld calls failed\n", (long long)f.round - 1, (int)(n * n), (long long)n_failed);
    return 0;
}
