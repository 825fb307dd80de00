/* A device of recorded times: it computes nothing, and its clock advances by the times that a script gives. */
#include "support/devices/sim_device.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

typedef struct sim {
    md_dev base; /* first */
    sim_device_options o;
    _Atomic uint64_t clock_ns;
    uint64_t n_timings;
    double us; /* of the timing under way */
    bool is_timing;
} sim;

/* Address space only: nobody reads or writes there but small callers. The length stands in a page of its own in
 * front. */
static md_status sim_alloc(void **out, md_dev *dev, size_t n_bytes)
{
    (void)dev;
    char *p = mmap(NULL, n_bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return md_fail_memory();
    *(size_t *)(void *)p = n_bytes + PAGE;
    *out = p + PAGE;
    return MD_OK;
}

static void sim_free(md_dev *dev, void *p)
{
    (void)dev;
    char *from = (char *)p - PAGE;
    munmap(from, *(size_t *)(void *)from);
}

static md_status sim_copy(md_dev *dev, void *to, const void *from, size_t n_bytes)
{
    (void)dev;
    memcpy(to, from, n_bytes);
    return MD_OK;
}

static md_status sim_sync(md_dev *dev, md_stream stream)
{
    (void)dev, (void)stream;
    return MD_OK;
}

static md_status sim_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source)
{
    sim *s = (sim *)dev;
    (void)source;
    *binary = calloc(1, 1);
    if (!*binary)
        return md_fail_memory();
    *n_bytes = 1;
    atomic_fetch_add(&s->clock_ns, (uint64_t)(s->o.compile_ms * 1e6 / MD_MAX(md_pool_threads(dev->pool), 1)));
    return MD_OK;
}

static md_status sim_load(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                          const md_kn_launch_source *source)
{
    (void)dev, (void)binary, (void)n_bytes, (void)source;
    *out = calloc(1, 1);
    return *out ? MD_OK : md_fail_memory();
}

static void sim_unload(md_dev *dev, md_dev_kernel *kernel)
{
    (void)dev;
    free(kernel);
}

/* A variant's time is its first launch's; the others come with it. */
static md_status sim_launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                            md_dev_params params, const md_kn_call *call)
{
    sim *s = (sim *)dev;
    (void)stream, (void)kernel, (void)geometry, (void)params;
    if (!call || !call->variant || call->launch > 0)
        return MD_OK;
    const double us = s->o.price(s->o.user, call->variant, call);
    if (us < 0.0)
        return md_fail(MD_DEVICE, "simulated: %s does not run", call->variant);
    if (s->is_timing)
        s->us += us;
    else
        atomic_fetch_add(&s->clock_ns, (uint64_t)(us > 0.0 ? us * 1e3 : 0.0));
    return MD_OK;
}

static double uniform(uint64_t seed, uint64_t i) /* splitmix64 (Vigna); (0, 1) */
{
    uint64_t z = (seed + i) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static md_status sim_time(double *us, md_dev *dev, md_stream stream, md_status (*body)(void *user), void *user)
{
    sim *s = (sim *)dev;
    (void)stream;
    s->us = 0.0;
    s->is_timing = true;
    md_status status = body(user);
    s->is_timing = false;
    const uint64_t i = 2 * s->n_timings++;
    const double gauss = sqrt(-2.0 * log(uniform(s->o.seed, i))) * cos(6.283185307179586 * uniform(s->o.seed, i + 1));
    *us = s->us * exp(s->o.noise * gauss);
    atomic_fetch_add(&s->clock_ns, (uint64_t)((s->o.timing_us + (s->us > 0.0 ? s->us : 0.0)) * 1e3));
    return status;
}

static uint64_t sim_now_ns(const md_dev *dev)
{
    return atomic_load(&((const sim *)dev)->clock_ns);
}

static void sim_destroy(md_dev *dev)
{
    free(dev);
}

static const md_dev_ops ops = {
    .name = "sim",
    .destroy = sim_destroy,
    .alloc = sim_alloc,
    .free = sim_free,
    .copy = sim_copy,
    .sync = sim_sync,
    .compile = sim_compile,
    .load = sim_load,
    .unload = sim_unload,
    .launch = sim_launch,
    .time = sim_time,
    .is_simulated = true,
    .now_ns = sim_now_ns,
};

md_status sim_device_open(md_dev **out, const sim_device_options *options)
{
    sim *s = calloc(1, sizeof *s);
    if (!s)
        return md_fail_memory();
    s->base.ops = &ops;
    s->base.facts = *options->facts;
    s->base.facts.can_compile = true;
    s->base.pool = options->pool;
    s->base.log = options->log;
    s->o = *options;
    *out = &s->base;
    return MD_OK;
}
