/* Rules of custom kernels: the table of expressions, tunables among their inputs, and what is wrong with a rule. */
#include "base/status.h"
#include "family/custom/custom.h"
#include "support/check.h"

#include <stdio.h>
#include <string.h>

static md_fx_formula *formula;
static md_st_program *program;

static int set_up(void **state)
{
    (void)state;
    assert_ok(md_fx_formula_create(&formula, "Y[m] = sum[n](X[m,n]) + E[i[m]] * sum[z](Z[z])", &(md_fx_options){0}));
    assert_ok(md_st_program_create(&program, formula));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
    return 0;
}

/* Whether a kernel with this rule is legal at m = 3, n = 1000, z = 0, 50 elements of E, threads = 128, items = 4. */
static bool holds(const char *rule)
{
    const md_tunable tunable[] = {{"threads", 1, {128}}, {"items", 1, {4}}};
    const md_custom custom = {.name = "k",
                              .device = "host",
                              .source = "x",
                              .entry = "f",
                              .grid = "m",
                              .legal = rule,
                              .tunable = tunable,
                              .n_tunables = 2};
    md_fa_customs *all;
    assert_ok(md_fa_customs_create(&all, &custom, 1, program, MD_DEV_HOST));
    const md_fa_target target = {.customs = all};
    const md_fa_config config = {.custom = 1, .value = {128, 4}};
    int64_t size[MD_FX_MAX_DIMS] = {0};
    for (int32_t d = 0; d < formula->n_dims; d++) {
        const char *name = formula->dim[d].name;
        size[d] = !strcmp(name, "m") ? 3 : !strcmp(name, "n") ? 1000 : !strcmp(name, "z") ? 0 : 50;
    }
    const bool is_legal = all->custom[0].family.legal(&target, &config, size);
    md_fa_customs_destroy(&all);
    return is_legal;
}

static void check_value(const char *text, bool has_value, int64_t value)
{
    char rule[256];
    snprintf(rule, sizeof rule, "(%s) == %lld", text, (long long)value);
    if (holds(rule) != has_value)
        fail_msg("%s", rule);
    snprintf(rule, sizeof rule, "(%s) != %lld", text, (long long)value);
    if (holds(rule))
        fail_msg("%s", rule);
}

static void values(void **state)
{
    (void)state;
#define VALUE(text, value) check_value(text, true, value);
#define NONE(text) check_value(text, false, 0);
#include "../expr/whole.inc"
#undef VALUE
#undef NONE
    check_value("threads * items", true, 512);
    check_value("(n + threads - 1) // threads", true, 8);
    check_value("m != 3 or items >= 4 and threads <= 128", true, 1);
    check_value("E.0 + 1", true, 51);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *part;
    } bad[] = {{"thread", "custom kernel 'k', legal: 1:1: 'thread' is neither a dim of the formula nor a tunable"},
               {"m <", "custom kernel 'k', legal: 1:"},
               {"1, 2, 3, 4, 5, 6, 7, 8, 9", "too many expressions"}};
    for (size_t i = 0; i < MD_COUNT(bad); i++) {
        const md_custom custom = {
            .name = "k", .device = "host", .source = "x", .entry = "f", .grid = "m", .legal = bad[i].rule};
        md_fa_customs *all;
        assert_fails(md_fa_customs_create(&all, &custom, 1, program, MD_DEV_HOST), MD_INVALID_ARGUMENT, bad[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(mistakes)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
