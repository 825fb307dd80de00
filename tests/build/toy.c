/* A family written by hand, for tests of building and tuning. */
#include "build/toy.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { Y, X, N_DIM = 0, BLOCK = 256 };

static bool applies(const md_fa_target *target)
{
    return target->stage == 0;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    (void)target;
    (void)size;
    return config->value[0] == TOY_PLAIN || config->value[0] == TOY_SLOW || config->value[0] == TOY_SHORT_ROWS;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    memset(out, 0, sizeof *out);
    out->unit = 3;
    if (config->value[0] == TOY_SHORT_ROWS)
        out->hi[N_DIM] = 100;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    double n = (double)size[N_DIM];
    memset(out, 0, sizeof *out);
    out->memory_bytes = 8 * n;
    out->ops = config->value[0] == TOY_SLOW ? 10000 * n : n;
    out->ops_rate = config->value[0] == TOY_SHORT_ROWS ? 1.0 : 0.5;
    out->serial_us = config->value[1] * 0.5;
    out->parallel = MD_MIN((n + BLOCK - 1) / BLOCK, target->facts->threads);
    out->launches = 1;
}

int32_t toy_slow_us;

static const char text_format[] =
    "/* salt %d */\n"
    "typedef union { void *p; long long i; double d; } word;\n"
    "void toy(const word *p, long long first, long long last, void *scratch)\n"
    "{\n"
    "    float *y = p[0].p; const float *x = p[1].p; long long n = p[2].i; float c = p[3].d;\n"
    "    for (int again = 0; again < %d; again++)\n"
    "        for (long long b = first; b < last; b++)\n"
    "            for (long long i = b * %d; i < (b + 1) * %d && i < n; i++) { __asm__ volatile(\"\" ::: \"memory\"); "
    "y[i] = x[i] * c + %d; }\n"
    "}\n";

static void add_text(md_kn_launch_source *launch, int32_t salt, int32_t times, int32_t plus, uint8_t to, uint8_t from)
{
    launch->code = MD_KN_TEXT;
    if (toy_slow_us)
        md_strbuf_printf(&launch->text, "/* SLOW_US=%d */\n", toy_slow_us);
    md_strbuf_printf(&launch->text, text_format, salt, times, BLOCK, BLOCK, plus);
    snprintf(launch->entry, sizeof launch->entry, "toy");
    launch->param[0] = (md_kn_param){.kind = to ? MD_KN_WORKSPACE : MD_KN_POINTER, .a = Y};
    launch->param[1] = (md_kn_param){.kind = from ? MD_KN_WORKSPACE : MD_KN_POINTER, .a = from ? 0 : X};
    launch->param[2] = (md_kn_param){.kind = MD_KN_SIZE, .a = N_DIM};
    launch->param[3] = (md_kn_param){.kind = MD_KN_SCALAR, .a = 0, .is_real = 1};
    launch->n_params = 4;
}

static md_status scale(const md_kn_call *call)
{
    float *y = call->data[Y];
    const float *x = call->data[X];
    for (int64_t i = 0; i < call->shape->size[N_DIM]; i++)
        y[i] = x[i] * (float)call->scalar[0].d;
    return MD_OK;
}

static md_status refuse(const md_kn_call *call)
{
    (void)call;
    return md_fail(MD_DEVICE, "this function always fails");
}

static md_status write_99(const md_kn_call *call)
{
    *(float *)call->data[Y] = 99.0f;
    return MD_OK;
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    const int32_t kind = config->value[0], salt = config->value[1];
    if (kind == TOY_NO_EMIT)
        return md_fail(MD_UNSUPPORTED, "toy kind %d cannot be written", kind);
    bool is_function = kind == TOY_FUNCTION || kind == TOY_FAILING_FUNCTION;
    out->n_launches = kind == TOY_TWICE || kind == TOY_FAILING_FUNCTION || kind == TOY_SAME_TWICE ? 2 : 1;
    if (is_function) {
        out->launch[0].code = out->launch[1].code = MD_KN_FUNCTION;
        out->launch[0].function = kind == TOY_FUNCTION ? scale : refuse;
        out->launch[1].function = write_99;
        return MD_OK;
    }
    if (kind == TOY_BAD_TEXT)
        md_strbuf_add(&out->launch[0].text, "#error FAIL_COMPILE on purpose\n");
    add_text(&out->launch[0], salt, kind == TOY_SLOW ? 10 : 1, 0, kind == TOY_TWICE, 0);
    out->launch[0].n_maps = kind == TOY_MAPPED;
    out->launch[0].map[0].is_copy = 1;
    if (kind == TOY_TWICE) {
        add_text(&out->launch[1], salt, 1, 1, 0, 1);
        out->launch[1].param[3].a = 1; /* a second scalar: 1 */
    }
    if (kind == TOY_SAME_TWICE)
        add_text(&out->launch[1], salt, 1, 0, 0, 0);
    for (int32_t i = 0; i < out->n_launches; i++)
        if (out->launch[i].text.failed)
            return md_fail_memory();
    return MD_OK;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    (void)target;
    memset(out, 0, sizeof *out);
    int64_t n = shape->size[N_DIM];
    for (int32_t i = 0; i < 2; i++)
        out->launch[i] = (md_kn_geometry){.blocks = (n + BLOCK - 1) / BLOCK, .grain = 1};
    out->workspace_bytes = config->value[0] == TOY_TWICE ? n * (int64_t)sizeof(float) : 0;
}

const md_fa_family toy_family = {
    .name = "toy",
    .device = MD_DEV_HOST,
    .n_fields = 2,
    .field = {{"kind", TOY_PLAIN, TOY_N_KINDS, {0, 1, 2, 3, 4, 5, 6, 7, 8}},
              {"salt", 0, 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
};

md_fa_config toy_config(int32_t kind, int32_t salt)
{
    return (md_fa_config){.value = {kind, salt}};
}

static void add_tensor(md_fx_formula *f, int32_t t, const char *name, md_fx_role role)
{
    f->tensor[t] =
        (md_fx_tensor){.name = name, .role = role, .dtype = MD_F32, .is_declared = true, .rank = 1, .stmt = -1};
    f->tensor[t].dim[0] = N_DIM;
}

void toy_init(toy *out, const md_dev_facts *facts)
{
    memset(out, 0, sizeof *out);
    md_fx_formula *f = &out->formula;
    f->n_dims = 1;
    f->dim[N_DIM] = (md_fx_dim){.name = "n", .size = -1, .hi = INT64_MAX};
    f->n_tensors = 2;
    add_tensor(f, Y, "Y", MD_FX_OUTPUT);
    add_tensor(f, X, "X", MD_FX_INPUT);
    out->program.formula = f;
    out->program.n_stages = 1;
    out->program.stage = &out->stage;
    out->program.known = out->known;
    md_st_stage *s = &out->program.stage[0];
    s->n_tensors = 2;
    s->tensor[0] = X;
    s->tensor[1] = Y;
    s->is_stored[1] = true;
    out->target = (md_fa_target){.program = &out->program, .stage = 0, .facts = facts};
}

void toy_call(md_kn_call *call, md_kn_shape *shape, const toy *t, float *y, const float *x, int64_t n)
{
    memset(shape, 0, sizeof *shape);
    memset(call, 0, sizeof *call);
    shape->size[N_DIM] = n;
    for (int32_t i = 0; i < 2; i++) {
        shape->extent[i][0] = n;
        shape->stride[i][0] = 1;
    }
    shape->contiguous = shape->unit = shape->aligned = 3;
    call->shape = shape;
    call->data[Y] = y;
    call->data[X] = (void *)(uintptr_t)x;
    call->scalar[0].d = 1.0;
    call->scalar[1].d = 1.0;
    call->program = &t->program;
    call->stage = &t->program.stage[0];
}
