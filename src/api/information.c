/* md_info: the device, its compiler, the store and what the context did so far. */
#include "api/context.h"
#include "base/embed.h"
#include "base/json.h"
#include "base/status.h"
#include "device/nvrtc/nvrtc.h"
#include "md_build_config.h"
#include "tune/bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

const char *md_api_device_name(char out[32], const md_context *c)
{
    if (c->dev->facts.kind == MD_DEV_CUDA)
        snprintf(out, 32, "cuda:%d", (int)c->dev->facts.index);
    else
        snprintf(out, 32, "%s", c->dev->ops->name);
    return out;
}

const char *md_api_library_name(char out[64])
{
    snprintf(out, 64, "%s %016" PRIx64, md_version(), md_source_identity);
    return out;
}

static json_t *device_json(const md_context *c)
{
    const md_dev_facts *f = &c->dev->facts;
    char name[32];
    return json_pack("{s:s, s:o, s:i, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:b, s:o}", "device",
                     md_api_device_name(name, c), "name", md_json_text(f->name), "threads", (int)f->threads,
                     "vector_bytes", (int)f->vector_bytes, "l1_bytes", (json_int_t)f->l1_bytes, "l2_bytes",
                     (json_int_t)f->l2_bytes, "l3_bytes", (json_int_t)f->l3_bytes, "memory_gbps",
                     md_json_real(f->memory_gbps), "gflops", md_json_real(f->gflops), "compiler",
                     md_json_text(f->compiler), "compiler_flags", md_json_text(f->flags), "can_compile",
                     (int)f->can_compile, "default_hints", md_json_text(c->hints));
}

/* When the rates of a host were measured, and how sure that was: 10 where the second best try took 10% longer. */
static void add_rates(json_t *j, const md_dev_facts *f)
{
    char date[32] = "";
    struct tm utc;
    const time_t at = (time_t)f->rates_at;
    if (f->kind != MD_DEV_HOST || f->rates_at <= 0)
        return;
    if (gmtime_r(&at, &utc))
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_object_set_new(j, "rates_measured", json_string(date));
    json_object_set_new(j, "rates_spread_percent", md_json_real(round(f->rates_spread * 1000) / 10));
}

/* What the library of products reaches of the processor's rate: what the model of gemm_lib is calibrated by. */
static void add_library(json_t *j, const md_dev_facts *f)
{
    md_strbuf text = {0};
    for (int32_t i = 0; i < MD_DEV_LIBRARY_SHAPES && f->library_us[i] > 0; i++) {
        const double flops = 2.0 * md_dev_library_rows(i) * MD_DEV_LIBRARY_COLUMNS * MD_DEV_LIBRARY_DEPTH;
        md_strbuf_printf(&text, "%s%d rows %.0f%%", i ? ", " : "", (int)md_dev_library_rows(i),
                         100 * flops / (f->library_us[i] * 1e3 * f->gflops));
    }
    if (text.size)
        json_object_set_new(j, "library_of_gflops", md_json_text(md_strbuf_text(&text)));
    md_strbuf_finish(&text);
}

/* How many bytes a tool must sweep through the cache before each sample of a kernel. */
static void add_cold_bytes(json_t *j, md_dev *dev)
{
    json_object_set_new(j, "cold_bytes", json_integer((json_int_t)md_tn_cold_bytes(dev)));
}

static void add_gpu(json_t *j, const md_dev_facts *f)
{
    if (f->kind != MD_DEV_CUDA)
        return;
    json_object_set_new(j, "arch", md_json_text(f->arch));
    json_object_set_new(j, "driver", json_integer(f->driver));
    json_object_set_new(j, "runtime", json_integer(f->runtime));
    json_object_set_new(j, "nvrtc", json_integer(f->nvrtc));
    json_object_set_new(j, "global_bytes", json_integer(f->global_bytes));
    json_object_set_new(j, "shared_per_block", json_integer(f->shared_per_block));
}

/* Says where NVRTC was found. Printed without a GPU too, because people look for it when it is missing. */
static void add_nvrtc(json_t *j)
{
    md_dev_nvrtc nvrtc;
    md_status s = md_dev_nvrtc_open(&nvrtc);
    json_object_set_new(j, "nvrtc_path",
                        s == MD_OK          ? md_json_text(nvrtc.path)
                        : s == MD_NOT_FOUND ? json_string("not found")
                                            : md_json_text(md_last_error()));
}

/* Counters of builds and tuning so far. */
static void add_counters(json_t *j, md_context *c)
{
    const md_bd_counters *b = md_bd_count(c->builder);
    const md_tn_counters *counters = &c->tune_count;
    const struct {
        const char *name;
        uint64_t value;
    } row[] = {
        {"compiles", atomic_load(&b->compiles)},
        {"stored_binaries", atomic_load(&b->stored)},
        {"bundled_binaries", atomic_load(&b->bundled)},
        {"tuned_points", atomic_load(&counters->points)},
        {"tuned_known", atomic_load(&counters->found)},
        {"tuned_timed", atomic_load(&counters->timed)},
        {"tuned_ms", atomic_load(&counters->measured_ns) / 1000000},
        {"tuned_wrong", atomic_load(&counters->wrong)},
        {"tuned_unbuilt", atomic_load(&counters->unbuilt)},
        {"tuned_failed", atomic_load(&counters->failed)},
        {"tuned_no_memory", atomic_load(&counters->out_of_memory)},
        {"tuned_busy", atomic_load(&counters->busy)},
        {"tuned_cut", atomic_load(&counters->cut)},
    };
    for (int32_t i = 0; i < MD_COUNT(row); i++)
        json_object_set_new(j, row[i].name, json_integer((json_int_t)row[i].value));
}

static json_t *info_json(md_context *context)
{
    json_t *j = context ? device_json(context) : json_object();
    if (j) {
        if (context)
            add_gpu(j, &context->dev->facts);
        if (context)
            add_rates(j, &context->dev->facts);
        if (context)
            add_library(j, &context->dev->facts);
        if (context)
            md_api_add_calibration(j, context);
        if (context)
            add_cold_bytes(j, context->dev);
        if (context)
            json_object_set_new(j, "store", md_json_text(md_store_path(context)));
        if (context)
            add_counters(j, context);
        json_object_set_new(j, "version", json_string(md_version()));
        json_object_set_new(j, "blas", json_boolean(MD_HAVE_BLAS));
        json_object_set_new(j, "cuda", json_string(MD_HAVE_CUDA ? "in this build" : "not in this build"));
        add_nvrtc(j);
    }
    return j;
}

static void print_value(md_strbuf *out, const json_t *v)
{
    if (json_is_string(v))
        md_strbuf_add(out, json_string_value(v));
    else if (json_is_integer(v))
        md_strbuf_printf(out, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        md_strbuf_printf(out, "%.1f", json_real_value(v));
    else
        md_strbuf_add(out, json_is_true(v) ? "yes" : "no");
}

static void print_lines(md_strbuf *out, json_t *j)
{
    const char *key;
    json_t *value;
    json_object_foreach(j, key, value)
    {
        md_strbuf_printf(out, "%-17s", key);
        print_value(out, value);
        md_strbuf_add(out, "\n");
    }
}

md_status md_info(md_context *context, int32_t json, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    json_t *j = info_json(context);
    char *dump = j && json ? md_json_dump(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!j || (json && !dump))
        text.failed = true;
    else if (json)
        md_strbuf_printf(&text, "%s\n", dump);
    else
        print_lines(&text, j);
    free(dump);
    json_decref(j);
    md_status s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}
