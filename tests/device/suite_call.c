/* Calls one formula in all its variants on a device and compares the results with the reference. */
#include "device/suite_call.h"

#include "api/context.h"
#include "base/dtype.h"
#include "support/check.h"
#include "support/constants.h"

enum { MAX_COMPLAINTS = 40 };

void suite_complain(suite *s, const suite_formula *f, int set, const char *variant, const char *format, ...)
{
    char text[700], sizes[200] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (set >= 0)
        data_sizes(sizes, sizeof(sizes), &f->set[set]);
    if (s->n_failed++ < MAX_COMPLAINTS)
        print_error("%s\n    dtype %s, %s%s%s%s%s: %s\n", f->text, md_dtype_name(f->options.dtype),
                    set >= 0 ? "sizes " : "", sizes, set >= 0 ? ", " : "", variant ? "variant " : "",
                    variant ? variant : "picked", text);
}

bool suite_begin(suite *s, suite_formula *f, const char *text, const md_op_options *options)
{
    *f = (suite_formula){.text = text, .options = *options};
    if (f->options.dtype == MD_DTYPE_DEFAULT)
        f->options.dtype = MD_F32;
    const md_fx_options o = {.dtype = f->options.dtype, .sizes = options->sizes, .bounds = options->bounds};
    if (md_fx_formula_create(&f->formula, text, &o) == MD_OK) {
        name_inputs(f->constants, sizeof f->constants, f->formula);
        f->options.constant = f->constants;
        return true;
    }
    suite_complain(s, f, -1, NULL, "%s", md_last_error());
    return false;
}

void suite_add(suite *s, suite_formula *f, uint64_t seed, const data_options *options)
{
    const int k = f->n_sets;
    md_fx_binding b;
    md_fx_fault fault = {0};
    if (k == SUITE_MAX_SETS || !data_make(&f->set[k], f->formula, seed, options))
        return;
    f->n_sets++;
    if (data_bind(&b, &f->set[k]) != MD_OK ||
        bound_evaluate(f->result[k], f->formula, &b, &s->options->bounds) != MD_OK ||
        md_fx_evaluate(f->formula, &b, &fault) != MD_OK)
        suite_complain(s, f, k, NULL, "the reference: %s", md_last_error());
    f->is_faulty[k] = fault.is_set;
    data_reset(&f->set[k]);
}

void suite_end(suite_formula *f)
{
    for (int k = 0; k < f->n_sets; k++) {
        data_finish(&f->set[k]);
        bound_finish(f->result[k], f->formula);
    }
    md_fx_formula_destroy(&f->formula);
}

/* ---- memory ---- */

/* The images go to the device and back. */
static bool to_device(suite *s, data_set *d, void **memory)
{
    bool ok = true;
    for (int32_t t = 0; t < d->formula->n_tensors; t++) {
        data_tensor *tensor = &d->tensor[t];
        memory[t] = NULL;
        if (!tensor->memory)
            continue;
        ok = ok && md_alloc(&memory[t], s->context, tensor->n_bytes) == MD_OK &&
             md_copy(s->context, memory[t], tensor->memory, tensor->n_bytes) == MD_OK;
        tensor->device.data = (char *)memory[t] + tensor->offset;
    }
    return ok;
}

static bool from_device(suite *s, data_set *d, void **memory)
{
    bool ok = md_sync(s->context, NULL) == MD_OK;
    for (int32_t t = 0; t < d->formula->n_tensors; t++) {
        if (!memory[t])
            continue;
        ok = ok && md_copy(s->context, d->tensor[t].memory, memory[t], d->tensor[t].n_bytes) == MD_OK;
        md_free(s->context, memory[t]);
    }
    return ok;
}

/* ---- one call ---- */

static void compare(suite *s, suite_formula *f, int set, const char *variant, int32_t skip)
{
    char text[400] = "";
    data_set *d = &f->set[set];
    for (int32_t t = 0; t < f->formula->n_tensors; t++) {
        if (f->formula->tensor[t].role != MD_FX_OUTPUT || t == skip)
            continue;
        s->n_elements += f->result[set][t].n;
        if (!bound_check(&f->result[set][t], &d->tensor[t].host, &s->n_unchecked, text, sizeof(text)))
            suite_complain(s, f, set, variant, "'%s': %s", f->formula->tensor[t].name, text);
    }
    if (skip < 0 && !data_is_intact(d, text, sizeof(text)))
        suite_complain(s, f, set, variant, "%s", text);
}

/* A status that is wrong: indices outside must be reported, nothing else may. */
static bool is_status_wrong(suite *s, const suite_formula *f, int set, md_status called)
{
    const md_status synced = md_sync(s->context, NULL);
    const md_status checked = synced == MD_OK ? md_check(s->context) : synced;
    const bool reported = called == MD_INVALID_ARGUMENT || checked == MD_INVALID_ARGUMENT;
    return f->is_faulty[set] ? !reported : called != MD_OK || checked != MD_OK;
}

/* False where the pinned variant does not fit. */
static bool call(suite *s, suite_formula *f, md_op *op, int set, const char *variant)
{
    md_arg arg[MD_FX_MAX_ARGS];
    void *memory[MD_FX_MAX_TENSORS];
    data_set *d = &f->set[set];
    bool fits = true, ran = to_device(s, d, memory);
    if (ran) {
        const int32_t n = data_args(arg, d, true);
        (void)md_op_operand_changed(op, NULL, NULL); /* memory of other sets was freed */
        const md_status status = md_call(op, NULL, arg, n);
        fits = !(variant && status == MD_UNSUPPORTED);
        if (fits && is_status_wrong(s, f, set, status)) {
            suite_complain(s, f, set, variant, "md_call: %s: %s", md_status_name(status),
                           status ? md_last_error() : "no index reported");
            ran = false;
        }
    }
    if (!from_device(s, d, memory))
        suite_complain(s, f, set, variant, "memory: %s", md_last_error());
    else if (ran && fits)
        compare(s, f, set, variant, -1);
    s->n_calls++;
    s->n_skipped += !fits;
    data_reset(d);
    return fits;
}

void suite_check_picked(suite *s, suite_formula *f)
{
    md_op *op = NULL;
    if (md_op_create(&op, s->context, f->text, &f->options) != MD_OK)
        suite_complain(s, f, -1, NULL, "md_op_create: %s", md_last_error());
    for (int k = 0; op && k < f->n_sets; k++)
        (void)call(s, f, op, k, NULL);
    md_op_destroy(&op);
}

void suite_check_variant(suite *s, suite_formula *f, int32_t stage, const char *name)
{
    char pin[300];
    md_op *op = NULL;
    md_op_options o = f->options;
    (void)snprintf(pin, sizeof(pin), "%d:%s", stage, name);
    o.pin = pin;
    s->n_variants++;
    md_status status = md_op_create(&op, s->context, f->text, &o);
    /* left out of pools, too */
    bool is_refused = status == MD_COMPILE && strstr(md_last_error(), "does not fit the registers");
    s->n_skipped += is_refused;
    if (status != MD_OK && !is_refused)
        suite_complain(s, f, -1, pin, "md_op_create: %s", md_last_error());
    for (int k = 0; op && k < f->n_sets; k++)
        (void)call(s, f, op, k, pin);
    md_op_destroy(&op);
}

void suite_check_variants(suite *s, suite_formula *f, int every)
{
    md_op *op = NULL;
    int64_t number = s->n_variants;
    if (md_op_create(&op, s->context, f->text, &f->options) != MD_OK || md_op_wait(op) != MD_OK) {
        suite_complain(s, f, -1, NULL, "md_op_create: %s", md_last_error());
        md_op_destroy(&op);
        return;
    }
    for (int32_t stage = 0; stage < md_op_n_stages(op); stage++)
        for (int32_t i = 0; i < md_op_n_variants(op, stage); i++)
            if (number++ % every == 0)
                suite_check_variant(s, f, stage, md_op_variant(op, stage, i));
    md_op_destroy(&op);
}

/* ---- in place ---- */

static bool have_one_layout(const md_tensor *a, const md_tensor *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int32_t i = 0; i < a->rank && same; i++)
        same = a->size[i] == b->size[i] && a->stride[i] == b->stride[i];
    return same;
}

static void call_in_place(suite *s, suite_formula *f, md_op *op, int set, int32_t output, int32_t input)
{
    md_arg arg[MD_FX_MAX_ARGS];
    void *memory[MD_FX_MAX_TENSORS];
    data_set *d = &f->set[set];
    const bool ready = to_device(s, d, memory);
    const md_tensor own = d->tensor[output].device;
    d->tensor[output].device = d->tensor[input].device;
    const int32_t n = data_args(arg, d, true);
    const md_status status = ready ? md_call(op, NULL, arg, n) : MD_DEVICE;
    d->tensor[output].device = own;
    if (status != MD_OK)
        suite_complain(s, f, set, "in place", "'%s' in the memory of '%s': %s", f->formula->tensor[output].name,
                       f->formula->tensor[input].name, md_last_error());
    if (!from_device(s, d, memory))
        suite_complain(s, f, set, "in place", "memory: %s", md_last_error());
    char text[400] = "";
    /* the input's image now holds the output; the rest must be as ever */
    if (status == MD_OK &&
        !bound_check(&f->result[set][output], &d->tensor[input].host, &s->n_unchecked, text, sizeof(text)))
        suite_complain(s, f, set, "in place", "'%s' in the memory of '%s': %s", f->formula->tensor[output].name,
                       f->formula->tensor[input].name, text);
    if (status == MD_OK)
        compare(s, f, set, "in place", output);
    s->n_calls++;
    data_reset(d);
}

typedef struct picker {
    uint64_t *seed;
    int32_t n;
    md_fa_config config;
} picker;

static bool pick(void *user, const md_fa_config *config)
{
    picker *p = user;
    p->n++;
    if (check_random(p->seed) % (uint64_t)p->n == 0)
        p->config = *config;
    return true;
}

bool suite_check_random(suite *s, suite_formula *f, const md_st_program *program, int32_t stage,
                        const md_fa_family *family, uint64_t *seed)
{
    md_fa_target target = {
        .program = program, .stage = stage, .facts = &s->context->dev->facts, .constants = all_inputs(f->formula)};
    picker p = {.seed = seed};
    char name[MD_FA_NAME];
    for (int k = 0; k < f->n_sets && md_fa_applies(family, &target); k++)
        md_fa_each_all(&target, family, f->set[k].size, pick, &p);
    if (p.n == 0)
        return false;
    md_fa_name(name, family, &p.config);
    suite_check_variant(s, f, stage, name);
    return true;
}

void suite_check_in_place(suite *s, suite_formula *f)
{
    md_op *op = NULL;
    const md_fx_formula *fx = f->formula;
    if (md_op_create(&op, s->context, f->text, &f->options) != MD_OK) {
        suite_complain(s, f, -1, NULL, "md_op_create: %s", md_last_error());
        return;
    }
    for (int k = 0; k < f->n_sets; k++)
        for (int32_t y = f->is_faulty[k] ? fx->n_tensors : 0; y < fx->n_tensors; y++)
            for (int32_t x = 0; x < fx->n_tensors; x++)
                if (fx->tensor[y].role == MD_FX_OUTPUT && !fx->tensor[y].is_updated &&
                    fx->tensor[x].role == MD_FX_INPUT &&
                    have_one_layout(&f->set[k].tensor[y].host, &f->set[k].tensor[x].host))
                    call_in_place(s, f, op, k, y, x);
    md_op_destroy(&op);
}
