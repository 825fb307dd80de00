/* The host device: the CPU with its C compiler and the thread pool. */
#include "device/host/host.h"

#include "base/cpu.h"
#include "base/env.h"
#include "base/status.h"
#include "device/host_memory.h"
#include "base/task/fork.h"
#include "base/temp.h"

#include "md_build_config.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct host_kernel {
    void *library; /* NULL for a function */
    md_kn_host_entry entry;
    md_kn_host_function function;
} host_kernel; /* what md_dev_kernel * points to here */

static void destroy(md_dev *dev)
{
    md_dev_host *host = (md_dev_host *)dev;
    md_dev_host_command_finish(&host->command);
    md_mutex_finish(&host->lock_of_loader);
    md_mutex_finish(&host->lock_of_retries);
    free(host->cc);
    free(host);
}

static md_status sync_stream(md_dev *dev, md_stream stream)
{
    (void)dev;
    (void)stream;
    return MD_OK; /* a launch is done when it returns */
}

static md_status load(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                      const md_kn_launch_source *source)
{
    pthread_mutex_t *lock = &((md_dev_host *)dev)->lock_of_loader;
    host_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return md_fail_memory();
    if (source->code == MD_KN_FUNCTION) {
        kernel->function = source->function;
    } else {
        pthread_mutex_lock(lock);
        md_status status =
            md_dev_host_load(&kernel->library, &kernel->entry, binary, n_bytes, source->entry, dev->environment);
        pthread_mutex_unlock(lock);
        if (status != MD_OK) {
            free(kernel);
            return status;
        }
    }
    *out = (md_dev_kernel *)kernel;
    return MD_OK;
}

static void unload(md_dev *dev, md_dev_kernel *kernel)
{
    pthread_mutex_t *lock = &((md_dev_host *)dev)->lock_of_loader;
    host_kernel *k = (host_kernel *)kernel;
    if (!k)
        return;
    if (k->library) {
        pthread_mutex_lock(lock);
        dlclose(k->library);
        pthread_mutex_unlock(lock);
    }
    free(k);
}

typedef struct loop {
    md_kn_host_entry entry;
    const md_kn_word *params;
} loop;

static void run_blocks(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    const loop *l = context;
    l->entry(l->params, first, last, scratch);
}

static md_status check_native(const md_dev *dev)
{
    return ((const md_dev_host *)dev)->is_foreign
               ? md_fail(MD_UNSUPPORTED,
                         "kernels are built for another processor (MD_CPU): this one has not all of its "
                         "instructions")
               : MD_OK;
}

static md_status launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                        md_dev_params params, const md_kn_call *call)
{
    (void)stream;
    const host_kernel *k = (const host_kernel *)kernel;
    if (geometry->blocks <= 0)
        return MD_OK;
    MD_TRY(check_native(dev));
    if (k->function)
        return k->function(call);
    int64_t grain = MD_MAX(geometry->grain, 1);
    size_t scratch_bytes = (size_t)MD_MAX(geometry->scratch_bytes, 0);
    if (geometry->blocks <= grain && scratch_bytes == 0) {
        k->entry(params.word, 0, geometry->blocks, NULL); /* one piece without scratch: the caller runs it */
        return MD_OK;
    }
    loop l = {k->entry, params.word};
    return md_pool_loop(dev->pool, geometry->blocks, grain, scratch_bytes, run_blocks, &l);
}

/* ---- Launches that the caller may cancel: in more pieces, before each of which it is asked. */

enum { PIECES = 256 };

typedef struct asking_loop {
    loop l;
    const md_cancel *cancel;
    _Atomic bool is_cancelled;
} asking_loop;

static void run_unless_cancelled(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    asking_loop *a = context;
    if (atomic_load_explicit(&a->is_cancelled, memory_order_relaxed))
        return;
    if (md_is_cancelled(a->cancel))
        atomic_store_explicit(&a->is_cancelled, true, memory_order_relaxed);
    else
        run_blocks(&a->l, first, last, lane, scratch);
}

static md_status launch_asking(md_dev *dev, md_stream stream, const md_dev_kernel *kernel,
                               const md_kn_geometry *geometry, md_dev_params params, const md_kn_call *call)
{
    const host_kernel *k = (const host_kernel *)kernel;
    if (geometry->blocks > 0 && k->function)
        return md_is_cancelled(&dev->cancel) ? md_fail_cancelled()
                                             : launch(dev, stream, kernel, geometry, params, call);
    asking_loop a = {.l = {k->entry, params.word}, .cancel = &dev->cancel};
    const int64_t most = MD_MAX(geometry->blocks / PIECES, 1);
    MD_TRY(md_pool_loop(dev->pool, geometry->blocks, MD_MIN(MD_MAX(geometry->grain, 1), most),
                        (size_t)MD_MAX(geometry->scratch_bytes, 0), run_unless_cancelled, &a));
    return atomic_load(&a.is_cancelled) ? md_fail_cancelled() : MD_OK;
}

/* ---- Many launches as one loop */

typedef struct list_loop {
    const md_dev_list *list;
    const md_cancel *cancel; /* NULL: nobody asks */
    _Atomic bool is_cancelled;
} list_loop;

/* The item of a block. */
static int64_t item_of(const md_dev_list *list, int64_t block)
{
    int64_t low = 0, high = list->n;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (list->first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void run_list_pieces(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    list_loop *l = context;
    const md_dev_list *list = l->list;
    (void)lane;
    if (l->cancel && !atomic_load_explicit(&l->is_cancelled, memory_order_relaxed) && md_is_cancelled(l->cancel))
        atomic_store_explicit(&l->is_cancelled, true, memory_order_relaxed);
    if (atomic_load_explicit(&l->is_cancelled, memory_order_relaxed))
        return;
    int64_t at = list->cut[first];
    const int64_t end = list->cut[last];
    for (int64_t i = item_of(list, at); at < end; i++) {
        const int64_t from = list->first[i], to = MD_MIN(list->first[i + 1], end);
        if (to <= at)
            continue; /* without blocks */
        const host_kernel *k = (const host_kernel *)list->item[i].kernel;
        k->entry(list->item[i].params, at - from, to - from, scratch);
        at = to;
    }
}

static md_status launch_list(md_dev *dev, const md_dev_list *list)
{
    list_loop l = {.list = list, .cancel = dev->cancel.asked ? &dev->cancel : NULL};
    MD_TRY(check_native(dev));
    MD_TRY(md_pool_loop(dev->pool, list->n_pieces, 1, (size_t)MD_MAX(list->scratch_bytes, 0), run_list_pieces, &l));
    return atomic_load(&l.is_cancelled) ? md_fail_cancelled() : MD_OK;
}

#define HOST_OPS(how)                                                                                                  \
    {                                                                                                                  \
        .name = "host", .destroy = destroy, .alloc = md_dev_host_alloc, .free = md_dev_host_free,                      \
        .copy = md_dev_host_copy, .sync = sync_stream, .compile = md_dev_host_compile, .load = load, .unload = unload, \
        .launch = how, .launch_list = launch_list                                                                      \
    }
static const md_dev_ops host_ops = HOST_OPS(launch), asking_ops = HOST_OPS(launch_asking);

/* GCC keeps vectors of two registers in memory, and moves them by 16 bytes unless it is told otherwise: sums of
 * integers take three times as long. The option is none of facts.flags, which say what a processor must have. */
static const char *moves_of(const md_dev_facts *f)
{
    enum { FIRST_GCC = 12 };
    const bool knows = !strncmp(f->compiler, "gcc ", 4) && atoi(f->compiler + 4) >= FIRST_GCC;
    return knows && f->vector_bytes == 32 ? " -mmove-max=256 -mstore-max=256" : "";
}

static md_status remake_command(md_dev_host *host)
{
    char flags[sizeof host->base.facts.flags + 64];
    md_dev_host_command command;
    snprintf(flags, sizeof flags, "%s%s", host->base.facts.flags, moves_of(&host->base.facts));
    MD_TRY(md_dev_host_command_init(&command, host->cc, flags, host->command.limit_ms));
    md_dev_host_command_finish(&host->command);
    host->command = command;
    return MD_OK;
}

md_status md_dev_host_set_flags(md_dev *dev, const char *flags, int32_t vector_bytes)
{
    snprintf(dev->facts.flags, sizeof dev->facts.flags, "%.*s", (int)sizeof dev->facts.flags - 1, flags);
    dev->facts.vector_bytes = vector_bytes;
    return remake_command((md_dev_host *)dev);
}

static void fill_facts(md_dev_facts *facts, const md_cpu *cpu, const md_pool *pool)
{
    facts->kind = MD_DEV_HOST;
    snprintf(facts->name, sizeof facts->name, "%s", cpu->name);
    facts->threads = md_pool_threads(pool);
    facts->vector_bytes = cpu->vector_bytes;
    facts->l1_bytes = cpu->l1_bytes;
    facts->l2_bytes = cpu->l2_bytes;
    facts->l3_bytes = cpu->l3_bytes;
    facts->has_blas = MD_HAVE_BLAS;
}

/* True if every feature that `flags` of the compiler ask for is among `own`. */
static bool has_features(const char *own, const char *flags)
{
    char copy[512], word[64], *rest = NULL, padded[600];
    snprintf(copy, sizeof copy, "%s", flags);
    snprintf(padded, sizeof padded, " %s ", own);
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        snprintf(word, sizeof word, " %s ", w);
        if (!strstr(padded, word))
            return false;
    }
    return true;
}

/* The facts of this processor, and the compiler's command line for it or for the level of options->level. */
static md_status init_command(md_dev_host *host, md_dev_facts *facts, const md_dev_options *options)
{
    md_cpu cpu, level;
    md_cpu_detect(&cpu);
    level = cpu;
    if (options->level && !md_cpu_level(&level, options->level))
        return md_fail(MD_INVALID_ARGUMENT, "'%.40s' is no level of instructions", options->level);
    host->is_foreign = !has_features(cpu.flags, level.flags);
    fill_facts(facts, &level, options->pool);
    MD_TRY(md_dev_host_flags(facts->flags, level.flags));
    host->cc = strdup(options->cc ? options->cc : "cc");
    return host->cc ? md_dev_host_command_init(&host->command, host->cc, facts->flags,
                                               options->compile_limit_ms > 0 ? options->compile_limit_ms : 60000)
                    : md_fail_memory();
}

md_status md_dev_host_open(md_dev **out, const md_dev_options *options)
{
    md_dev_host *host = calloc(1, sizeof *host);
    if (!host)
        return md_fail_memory();
    if (md_temp_check(options->environment) != MD_OK)
        md_log_at(options->log, MD_LOG_WARN, "%s", md_last_error());
    md_temp_sweep(options->environment);
    host->base.ops = options->cancel.asked ? &asking_ops : &host_ops;
    host->base.pool = options->pool;
    host->base.cancel = options->cancel;
    host->base.log = options->log;
    host->base.environment = options->environment;
    md_dev_facts *facts = &host->base.facts;
    md_status status = init_command(host, facts, options);
    if (status != MD_OK) {
        free(host->cc);
        free(host);
        return status;
    }
    md_mutex_init(&host->lock_of_loader);
    md_mutex_init(&host->lock_of_retries);
    status = options->is_bundled ? md_fail(MD_COMPILE, "kernels come from bundles")
                                 : md_dev_host_compiler_version(facts->compiler, host);
    facts->can_compile = status == MD_OK;
    if (status == MD_OK)
        status = remake_command(host);
    if (status == MD_OUT_OF_MEMORY) {
        destroy(&host->base);
        return status;
    }
    if (!facts->can_compile && !options->is_bundled)
        md_log_once(options->log, MD_LOG_NO_COMPILER, MD_LOG_WARN,
                    "no kernel can be compiled, so the slow reference evaluator serves; set MD_CC to a working C "
                    "compiler: %s",
                    md_last_error());
    if (!options->defers_rates)
        md_dev_host_set_rates(&host->base, NULL, false);
    *out = &host->base;
    return MD_OK;
}

static void use_rates(md_dev_facts *f, const md_dev_host_rates *r)
{
    f->memory_gbps = r->rate[0];
    f->lane_gbps = r->rate[1];
    f->cache_gbps = r->rate[2];
    f->gflops = r->rate[3];
    f->launch_us = r->rate[4];
    memcpy(f->library_us, r->library_us, sizeof f->library_us);
    f->rates_spread = r->spread;
    f->rates_at = r->at;
}

static void measure_rates(md_dev_facts *f, const md_dev *dev, bool is_estimate)
{
    const bool is_foreign = ((const md_dev_host *)dev)->is_foreign;
    const int32_t vector_bytes = f->vector_bytes;
    md_cpu cpu = {.vector_bytes = vector_bytes};
    if (is_foreign) /* the rates were measured in this processor's vectors */
        md_cpu_detect(&cpu);
    f->vector_bytes = cpu.vector_bytes;
    md_dev_host_measure(f, dev->pool, is_estimate);
    if (!is_foreign && !is_estimate)
        md_dev_host_measure_library(f);
    f->vector_bytes = vector_bytes;
    f->gflops *= (double)vector_bytes / cpu.vector_bytes;
}

static md_dev_host_rates rates_of(const md_dev_facts *f)
{
    md_dev_host_rates r = {.rate = {f->memory_gbps, f->lane_gbps, f->cache_gbps, f->gflops, f->launch_us},
                           .spread = f->rates_spread,
                           .at = f->rates_at};
    memcpy(r.library_us, f->library_us, sizeof r.library_us);
    return r;
}

void md_dev_host_measure_again(md_dev_host_rates *out, const md_dev *dev)
{
    md_dev_facts facts = dev->facts;
    measure_rates(&facts, dev, false);
    *out = rates_of(&facts);
    md_dev_host_note_measured(out, &facts, ((const md_dev_host *)dev)->is_foreign);
}

void md_dev_host_set_rates(md_dev *dev, const md_dev_host_rates *known, bool estimates)
{
    const md_dev_facts *f = &dev->facts;
    const bool is_foreign = ((md_dev_host *)dev)->is_foreign;
    md_dev_host_rates given;
    if (!known && md_dev_host_given_rates(&given))
        known = &given;
    if (!known)
        known = md_dev_host_find_measured(f, is_foreign);
    if (known) {
        use_rates(&dev->facts, known);
    } else {
        measure_rates(&dev->facts, dev, estimates);
        const md_dev_host_rates now = rates_of(f);
        md_dev_host_note_measured(&now, f, is_foreign);
    }
    md_log_at(dev->log, MD_LOG_INFO, "host: %s, %d threads, %s, %.0f GB/s memory, %.0f GFLOP/s, spread %.0f%%%s",
              f->name, f->threads, f->can_compile ? f->compiler : "no compiler", f->memory_gbps, f->gflops,
              100 * f->rates_spread, known ? " (as measured before)" : "");
}

void md_dev_host_get_rates(md_dev_host_rates *out, const md_dev *dev)
{
    *out = rates_of(&dev->facts);
}
