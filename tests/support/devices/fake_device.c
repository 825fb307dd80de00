/* A device that compiles and runs nothing: words in a kernel's text say what happens to it. */
#include "support/devices/fake_device.h"

#include "base/clock.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct fake_kernel {
    md_kn_host_function function;
    int32_t slow_us;
    bool fails, hangs;
    char text[64]; /* its beginning */
} fake_kernel;

static md_status fake_alloc(void **out, md_dev *dev, size_t n_bytes)
{
    (void)dev;
    *out = aligned_alloc(64, (n_bytes + 127) / 64 * 64);
    return *out ? MD_OK : md_fail_memory();
}

static void fake_free(md_dev *dev, void *p)
{
    (void)dev;
    free(p);
}

static md_status fake_copy(md_dev *dev, void *to, const void *from, size_t n_bytes)
{
    (void)dev;
    memcpy(to, from, n_bytes);
    return MD_OK;
}

static md_status fake_sync(md_dev *dev, md_stream stream)
{
    (void)dev;
    (void)stream;
    return MD_OK;
}

static void raise_to(_Atomic int32_t *most, int32_t n)
{
    int32_t seen = atomic_load(most);
    while (n > seen && !atomic_compare_exchange_weak(most, &seen, n))
        ;
}

/* The binary is the text itself. */
static md_status fake_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source)
{
    fake_device *fake = (fake_device *)dev;
    const char *text = md_strbuf_text(&source->text);
    raise_to(&fake->most_compiling, atomic_fetch_add(&fake->n_compiling, 1) + 1);
    nanosleep(&(struct timespec){fake->compile_ms / 1000, fake->compile_ms % 1000 * 1000000L}, NULL);
    for (const char *held; (held = atomic_load(&fake->held)) != NULL && strstr(text, held);)
        nanosleep(&(struct timespec){0, 1000000L}, NULL);
    atomic_fetch_add(&fake->n_compiled, 1);
    atomic_fetch_sub(&fake->n_compiling, 1);
    if (atomic_load(&fake->disk_is_full))
        return md_fail(MD_IO, "scripted: no space is left");
    if (strstr(text, "FAIL_COMPILE"))
        return md_fail(MD_COMPILE, "scripted: this text does not compile");
    char *copy = malloc(source->text.size + 1);
    if (!copy)
        return md_fail_memory();
    memcpy(copy, text, source->text.size + 1);
    *binary = copy;
    *n_bytes = source->text.size;
    return MD_OK;
}

static md_status fake_load(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                           const md_kn_launch_source *source)
{
    (void)n_bytes;
    fake_device *fake = (fake_device *)dev;
    const char *text = binary ? binary : "";
    if (strstr(text, "FAIL_LOAD"))
        return md_fail(MD_DEVICE, "scripted: this kernel does not load");
    fake_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return md_fail_memory();
    snprintf(kernel->text, sizeof kernel->text, "%s", text);
    const char *slow = strstr(text, "SLOW_US=");
    kernel->slow_us = slow ? atoi(slow + strlen("SLOW_US=")) : 0;
    kernel->hangs = strstr(text, "HANG") != NULL;
    kernel->fails = strstr(text, "FAIL_LAUNCH") != NULL;
    kernel->function = source->code == MD_KN_FUNCTION ? source->function : NULL;
    atomic_fetch_add(&fake->n_loaded, 1);
    *out = (md_dev_kernel *)kernel;
    return MD_OK;
}

static void fake_unload(md_dev *dev, md_dev_kernel *kernel)
{
    atomic_fetch_add(&((fake_device *)dev)->n_unloaded, 1);
    free(kernel);
}

void fake_device_spend(fake_device *fake, uint64_t ns)
{
    if (fake->owns_clock) {
        atomic_fetch_add(&fake->now_ns, ns);
        return;
    }
    const uint64_t end = md_clock_ns() + ns;
    while (ns && md_clock_ns() < end)
        ;
}

static uint64_t fake_now_ns(const md_dev *dev)
{
    const fake_device *fake = (const fake_device *)dev;
    return fake->owns_clock ? atomic_load(&fake->now_ns) : md_clock_ns();
}

static md_status fake_launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                             md_dev_params params, const md_kn_call *call)
{
    (void)stream;
    (void)geometry;
    const fake_device *fake = (const fake_device *)dev;
    const fake_kernel *k = (const fake_kernel *)kernel;
    atomic_fetch_add(&((fake_device *)dev)->n_launched, 1);
    const char *refused = atomic_load(&fake->refused);
    if (k->fails || (refused && strstr(k->text, refused)))
        return md_fail(MD_DEVICE, "scripted: this kernel does not launch");
    if (k->hangs)
        return md_fail(MD_TIMEOUT, "scripted: this kernel does not end");
    fake_device_spend((fake_device *)dev, (uint64_t)k->slow_us * 1000);
    if (!k->function && fake->on_launch)
        fake->on_launch(k->text, params.word, params.n);
    return k->function ? k->function(call) : MD_OK;
}

static md_status fake_map_make(md_dev_map *out, md_dev *dev, const md_dev_kernel *kernel, int32_t i,
                               const md_kn_call *call)
{
    (void)kernel;
    atomic_fetch_add(&((fake_device *)dev)->n_maps_made, 1);
    const bool is_tensor = i == 0 || ((fake_device *)dev)->maps_tensors;
    *out = (md_dev_map){.tensor = is_tensor ? 1 - i : -1,
                        .offset = is_tensor ? 0 : 64,
                        .address = 1,
                        .at = ((fake_device *)dev)->maps_are_known};
    for (int32_t k = 1; k < MD_KN_MAP_WORDS; k++)
        out->word[k].i = 100 * i + k;
    out->word[1].i = call->shape->size[0];
    return MD_OK;
}

static md_status fake_map_move(md_kn_word words[MD_KN_MAP_WORDS], md_dev *dev, const md_dev_kernel *kernel,
                               uint64_t address)
{
    (void)kernel;
    atomic_fetch_add(&((fake_device *)dev)->n_maps_moved, 1);
    words[0].i = (int64_t)address;
    return MD_OK;
}

static void fake_destroy(md_dev *dev)
{
    (void)dev; /* the test's own memory */
}

static const md_dev_ops fake_ops = {
    .name = "fake",
    .destroy = fake_destroy,
    .alloc = fake_alloc,
    .free = fake_free,
    .copy = fake_copy,
    .sync = fake_sync,
    .compile = fake_compile,
    .load = fake_load,
    .unload = fake_unload,
    .launch = fake_launch,
    .map_make = fake_map_make,
    .map_move = fake_map_move,
    .now_ns = fake_now_ns,
};

void fake_device_init(fake_device *out, md_pool *pool, const md_log *log)
{
    memset(out, 0, sizeof *out);
    out->base.ops = &fake_ops;
    out->base.pool = pool;
    out->base.log = log;
    out->base.facts = (md_dev_facts){
        .kind = MD_DEV_SIM,
        .name = "fake",
        .compiler = "fake 1.0",
        .flags = "-fake",
        .threads = 2,
        .vector_bytes = 32,
        .l1_bytes = 32 << 10,
        .l2_bytes = 1 << 20,
        .l3_bytes = 16 << 20,
        .memory_gbps = 20.0,
        .lane_gbps = 12.0,
        .cache_gbps = 50.0,
        .gflops = 100.0,
        .launch_us = 2.0,
        .can_compile = true,
    };
}
