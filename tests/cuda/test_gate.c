/* GPU kernels without a GPU: every family's configs for the boards' operations, as text, through NVRTC for three
 * architectures, held to what a kernel of ours must be: no stack frame, no spills, no ptxas warning of lost
 * performance, registers and shared memory of a block within the limits wherever the family would launch it. A
 * family only estimates how many registers a config needs: one that does not fit is refused by the builder, and
 * costs time and a place in a pool. Of what the model picks for pools at most one in eight may be so; all else must
 * compile and fit. `--full` takes all pools and MD_GATE_SECONDS of other legal configs; otherwise a sample that
 * MD_TEST_SEED picks: each operation in one dtype on one architecture, there families that were not met, then half
 * the time for more of the pools, half for others (MD_GATE_SECONDS, 1). */
#include "family/cuda/gate_fixture.h"
#include "gate.h"
#include "support/constants.h"

#include "support/check.h"

#include "base/clock.h"
#include "base/status.h"

#include <pthread.h>
#include <unistd.h>

enum { MAX_THREADS = 16, MAX_TOLD = 12 };

typedef struct gate_run {
    gate_list *list;
    pthread_mutex_t lock; /* of everything below, and of emitting */
    int32_t next, last, n_must; /* cases before n_must are compiled whatever the time */
    uint64_t end_ns;
    int32_t n_done[2], n_refused[2], n_failed; /* others, pools; refused: they do not fit the registers */
    int32_t n_told;
    double sum_ms, worst_ms;
    char worst[256];
} gate_run;

/* One launch; `ms` gets the compiler's time. */
static md_status compile_launch(double *ms, const gate_case *c, const md_kn_launch_source *source, int32_t launch)
{
    gate_binary b;
    md_status s = gate_compile(&b, source, c->facts->arch);
    *ms = b.ms;
    if (s == MD_OK)
        s = gate_check_launch(c, source, launch, &b.about);
    free(b.bytes);
    return s;
}

static md_status compile_case(double *ms, gate_run *run, const gate_case *c)
{
    md_kn_source source = {0};
    md_fa_target target = {
        .program = c->program, .stage = c->stage, .facts = c->facts, .constants = all_inputs(c->program->formula)};
    pthread_mutex_lock(&run->lock);
    md_status s = md_fa_emit(&source, c->family, &target, &c->config);
    pthread_mutex_unlock(&run->lock);
    *ms = 0.0;
    for (int32_t i = 0; s == MD_OK && i < source.n_launches; i++) {
        double one = 0.0;
        if (source.launch[i].code != MD_KN_TEXT)
            continue;
        s = compile_launch(&one, c, &source.launch[i], i);
        *ms = MD_MAX(*ms, one);
    }
    md_kn_source_finish(&source);
    return s;
}

static void describe(char out[256], const gate_case *c)
{
    char name[MD_FA_NAME];
    md_fa_name(name, c->family, &c->config);
    snprintf(out, 256, "%s %s stage %d %s %s", c->op, md_dtype_name(c->dtype), (int)c->stage, c->facts->arch, name);
}

static void note(gate_run *run, const gate_case *c, double ms, md_status s)
{
    char text[256];
    describe(text, c);
    bool is_refused = s != MD_OK && strstr(md_last_error(), "does not fit the registers");
    run->n_done[c->is_pooled]++;
    run->n_refused[c->is_pooled] += is_refused;
    run->n_failed += s != MD_OK && !is_refused;
    run->sum_ms += ms;
    if (ms > run->worst_ms) {
        run->worst_ms = ms;
        memcpy(run->worst, text, sizeof text);
    }
    if (s != MD_OK && (c->is_pooled || !is_refused) && run->n_told++ < MAX_TOLD)
        print_error("%s%s: %s\n", is_refused ? "refused: " : "", text, md_last_error());
}

static void *work(void *user)
{
    gate_run *run = user;
    pthread_mutex_lock(&run->lock);
    while (run->next < run->last && (run->next < run->n_must || md_clock_ns() < run->end_ns)) {
        const gate_case *c = &run->list->at[run->next++];
        pthread_mutex_unlock(&run->lock);
        double ms = 0.0;
        md_status s = compile_case(&ms, run, c);
        pthread_mutex_lock(&run->lock);
        note(run, c, ms, s);
    }
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

/* Cases from run->next on and before `last`: those before n_must, then others for so long. */
static void compile_cases(gate_run *run, int32_t last, int32_t n_must, double seconds)
{
    pthread_t thread[MAX_THREADS];
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const int32_t n = n_cpus < 2 ? 2 : n_cpus > MAX_THREADS ? MAX_THREADS : (int32_t)n_cpus;
    run->last = last;
    run->n_must = n_must;
    run->end_ns = md_clock_ns() + (uint64_t)(1e9 * seconds);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, run), 0);
    for (int32_t i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static bool is_full;

static void test_gate(void **state)
{
    (void)state;
    md_dev_nvrtc nvrtc;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        print_message("GPU KERNELS NOT CHECKED: %s\n", md_last_error());
        skip();
    }
    const char *text = getenv("MD_GATE_SECONDS");
    double seconds = text ? atof(text) : 1.0;
    gate_list list = {0};
    gate_run run = {.list = &list, .lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t seed = check_seed();
    assert_ok(gate_list_make(&list, getenv("MD_GATE_ONLY"), is_full ? NULL : &seed));
    int32_t n_must = gate_list_sample(&list, seed);
    compile_cases(&run, list.n_pooled, is_full ? list.n_pooled : n_must, seconds / 2);
    run.next = list.n_pooled;
    compile_cases(&run, list.n, 0, seconds / 2);
    print_message("NVRTC %d.%d: %d of %d variants of pools compiled (%d refused for their registers), %d of %d others "
                  "(%d refused); "
                  "%.0f ms of processor time each, at most %.0f ms: %s\n",
                  (int)(nvrtc.version / 1000), (int)(nvrtc.version % 1000 / 10), (int)run.n_done[1], (int)list.n_pooled,
                  (int)run.n_refused[1], (int)run.n_done[0], (int)(list.n - list.n_pooled), (int)run.n_refused[0],
                  run.sum_ms / MD_MAX(run.n_done[0] + run.n_done[1], 1), run.worst_ms, run.worst);
    gate_list_finish(&list);
    if (run.n_failed > 0 || 8 * run.n_refused[1] > run.n_done[1])
        fail_msg("%d of %d variants failed, %d of %d of pools refused", (int)run.n_failed,
                 (int)(run.n_done[0] + run.n_done[1]), (int)run.n_refused[1], (int)run.n_done[1]);
}

int main(int n, char **argument)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gate)};
    is_full = n > 1 && strcmp(argument[1], "--full") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
