/* Elementwise operations: which form each takes, on real operands or on integers. */
#include "expr/eval/code.h"

static double run_add(md_eval_machine *m, const md_eval_code *c)
{
    double a = md_eval_real(m, c->arg[0]);
    return a + md_eval_real(m, c->arg[1]);
}

static double run_sub(md_eval_machine *m, const md_eval_code *c)
{
    double a = md_eval_real(m, c->arg[0]);
    return a - md_eval_real(m, c->arg[1]);
}

static double run_mul(md_eval_machine *m, const md_eval_code *c)
{
    double a = md_eval_real(m, c->arg[0]);
    return a * md_eval_real(m, c->arg[1]);
}

static double run_real1(md_eval_machine *m, const md_eval_code *c)
{
    return c->real_op(md_eval_real(m, c->arg[0]), 0.0, 0.0);
}

static double run_real2(md_eval_machine *m, const md_eval_code *c)
{
    double a = md_eval_real(m, c->arg[0]);
    return c->real_op(a, md_eval_real(m, c->arg[1]), 0.0);
}

static double run_real3(md_eval_machine *m, const md_eval_code *c)
{
    double a = md_eval_real(m, c->arg[0]), b = md_eval_real(m, c->arg[1]);
    return c->real_op(a, b, md_eval_real(m, c->arg[2]));
}

static int64_t run_int1(md_eval_machine *m, const md_eval_code *c)
{
    return c->int_op(md_eval_int(m, c->arg[0]), 0, 0);
}

static int64_t run_int2(md_eval_machine *m, const md_eval_code *c)
{
    int64_t a = md_eval_int(m, c->arg[0]);
    return c->int_op(a, md_eval_int(m, c->arg[1]), 0);
}

static int64_t run_int3(md_eval_machine *m, const md_eval_code *c)
{
    int64_t a = md_eval_int(m, c->arg[0]), b = md_eval_int(m, c->arg[1]);
    return c->int_op(a, b, md_eval_int(m, c->arg[2]));
}

static int64_t run_test1(md_eval_machine *m, const md_eval_code *c)
{
    return c->test(md_eval_real(m, c->arg[0]), 0.0);
}

static int64_t run_test2(md_eval_machine *m, const md_eval_code *c)
{
    double a = md_eval_real(m, c->arg[0]);
    return c->test(a, md_eval_real(m, c->arg[1]));
}

/* `and` and `or` are operations like others: both sides are read. Lazy: the arm not taken is never read. */
static double run_real_where(md_eval_machine *m, const md_eval_code *c)
{
    return md_eval_real(m, c->arg[md_eval_int(m, c->arg[0]) != 0 ? 1 : 2]);
}

static int64_t run_int_where(md_eval_machine *m, const md_eval_code *c)
{
    return md_eval_int(m, c->arg[md_eval_int(m, c->arg[0]) != 0 ? 1 : 2]);
}

/* Which form an operation takes: real operands, integer ones, or real ones under a comparison. */
static void choose(md_eval_code *c, const md_fx_node *node, bool real_args)
{
    static const md_eval_real_fn by_arity_real[] = {run_real1, run_real1, run_real2, run_real3};
    static const md_eval_int_fn by_arity_int[] = {run_int1, run_int1, run_int2, run_int3};
    bool is_test = node->type == MD_BOOL;
    c->real_op = md_scalar_real(node->op);
    c->int_op = md_scalar_int(node->op);
    c->test = md_scalar_test(node->op);
    if (node->op == MD_FX_WHERE) {
        c->real = real_args ? run_real_where : NULL;
        c->integer = real_args ? NULL : run_int_where;
    } else if (real_args && is_test) {
        c->integer = node->n_args == 1 ? run_test1 : run_test2;
    } else if (real_args) {
        c->real = node->op == MD_FX_ADD   ? run_add
                  : node->op == MD_FX_SUB ? run_sub
                  : node->op == MD_FX_MUL ? run_mul
                                          : by_arity_real[node->n_args];
    } else {
        c->integer = by_arity_int[node->n_args];
    }
}

/* True if the operands are converted to real: where the result is, and where a comparison has a real side. */
static bool has_real_args(const md_fx_node *node)
{
    bool real = md_dtype_is_real(node->type);
    for (int32_t i = 0; i < node->n_args && node->type == MD_BOOL && node->op != MD_FX_WHERE; i++)
        real |= md_dtype_is_real(node->arg[i]->type);
    return real && !md_fx_op_is_logic(node->op);
}

const md_eval_code *md_eval_op(md_eval_machine *m, const md_fx_node *node, const md_eval_code *const *arg)
{
    bool real_args = has_real_args(node);
    md_eval_code *c = md_eval_code_new(m);
    if (!c)
        return NULL;
    for (int32_t i = 0; i < node->n_args; i++) {
        const md_eval_code *a = arg[i];
        if (md_fx_op_is_logic(node->op) || (node->op == MD_FX_WHERE && i == 0))
            a = a->real ? md_eval_to_bool(m, a) : a;
        else if (real_args)
            a = md_eval_to_real(m, a);
        if (!a)
            return NULL;
        c->arg[i] = a;
        md_eval_set_join(&c->uses, &a->uses);
    }
    choose(c, node, real_args);
    return c;
}
