/* The reference evaluator against NumPy: every case of conformance.txt, in every default dtype. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/eval/eval.h"
#include "support/check.h"
#include "support/conformance.h"

static int n_failed;

static void report(const conformance_case *c, const char *what)
{
    n_failed++;
    print_error("%s (%s): %s\n    %s\n", c->name, md_dtype_name(c->dtype), what, c->formula);
}

static md_status bind_case(md_fx_binding *out, const md_fx_formula *f, const conformance_case *c)
{
    md_arg arg[MD_FX_MAX_ARGS] = {0};
    for (int32_t i = 0; i < f->n_args; i++) {
        const md_fx_arg *a = &f->args[i];
        const char *name = a->is_scalar ? f->scalar[a->id].name : f->tensor[a->id].name;
        if (!conformance_arg(&arg[i], c, name, a->is_scalar && f->scalar[a->id].type == MD_I64))
            return md_fail(MD_INTERNAL, "the case has no '%s'", name);
    }
    return md_fx_bind(out, f, arg, f->n_args);
}

static void check_fault(const conformance_case *c, const md_fx_formula *f, const md_fx_fault *fault)
{
    char text[160];
    if (fault->is_set != c->has_fault)
        report(c, fault->is_set ? "reported a fault" : "reported no fault");
    else if (fault->is_set && (strcmp(f->tensor[fault->tensor].name, c->fault_tensor) != 0 ||
                               fault->axis != c->fault_axis || fault->value != c->fault_value)) {
        (void)snprintf(text, sizeof(text), "reported the fault %s %d %lld", f->tensor[fault->tensor].name, fault->axis,
                       (long long)fault->value);
        report(c, text);
    }
}

/* Elements computed one at a time are those of the whole result, before rounding. */
static void check_elements(const conformance_case *c, const md_fx_formula *f, const md_fx_binding *b)
{
    for (int32_t t = 0; t < f->n_tensors; t++) {
        const md_fx_tensor *tensor = &f->tensor[t];
        int64_t at[MD_MAX_RANK] = {0}, offset = 0, whole = 0;
        double real = 0.0;
        if (tensor->role != MD_FX_OUTPUT)
            continue;
        bool is_empty = false;
        for (int32_t i = 0; i < tensor->rank; i++) {
            is_empty |= b->tensor[t].size[i] == 0;
            at[i] = b->tensor[t].size[i] - 1;
            offset += at[i] * b->tensor[t].stride[i];
        }
        if (is_empty)
            continue;
        bool is_real = md_dtype_is_real(tensor->dtype);
        md_status status = is_real ? md_fx_evaluate_at(&real, f, b, t, at) : md_fx_evaluate_int_at(&whole, f, b, t, at);
        if (status == MD_UNSUPPORTED && (tensor->is_updated || f->n_stmts > 1)) /* or reads one that is */
            continue;
        double stored = md_dtype_load(tensor->dtype, b->tensor[t].data, offset);
        if (status != MD_OK)
            report(c, md_last_error());
        else if (is_real ? md_dtype_round(tensor->dtype, real) != stored && real == real
                         : whole != md_dtype_load_int(tensor->dtype, b->tensor[t].data, offset))
            report(c, "md_fx_evaluate_at gives another value than md_fx_evaluate");
    }
}

static void run_bound(const conformance_case *c, const md_fx_formula *f, md_fx_binding *b)
{
    char text[256];
    md_fx_fault fault = {0};
    if (md_fx_evaluate(f, b, &fault) != MD_OK) {
        report(c, md_last_error());
        return;
    }
    check_fault(c, f, &fault);
    double factor = c->dtype == MD_F64 ? 64.0 : c->dtype == MD_F32 ? 8.0 : 2.0;
    if (!conformance_check(c, factor, text, sizeof(text)))
        report(c, text);
    else
        check_elements(c, f, b);
}

static void run_case(void *user, const conformance_case *c)
{
    (void)user;
    md_fx_formula *f = NULL;
    md_fx_binding b;
    const md_fx_options options = {.dtype = c->dtype, .sizes = c->sizes[0] ? c->sizes : NULL, .bounds = c->bounds};
    if (md_fx_formula_create(&f, c->formula, &options) != MD_OK) {
        report(c, md_last_error());
        return;
    }
    md_status status = bind_case(&b, f, c);
    if (c->fails[0] != 0 && (status == MD_OK || strstr(md_last_error(), c->fails) == NULL))
        report(c, status == MD_OK ? "was accepted" : md_last_error());
    else if (c->fails[0] == 0 && status != MD_OK)
        report(c, md_last_error());
    else if (status == MD_OK)
        run_bound(c, f, &b);
    md_fx_formula_destroy(&f);
}

static void test_all(void **state)
{
    (void)state;
    int n = conformance_each(MD_TEST_DATA "/conformance.txt", run_case, NULL);
    print_message("%d runs\n", n);
    assert_true(n > 800);
    assert_int_equal(n_failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
}
