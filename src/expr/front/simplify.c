/* Folding that changes no bit of any result: integers, exact real constants, casts, identities that hold for every
 * value, signed zeros and NaN included. Nothing is re-associated. Nothing that names an argument or an index
 * disappears. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/node.h"
#include "expr/scalar.h"

#include <math.h>
#include <string.h>

enum { MAX_SQUARED = 64 };

typedef struct simplifier {
    md_front *front;
    bool in_subscript; /* constants only: `i + 0` must not become a plain index, which means something else */
} simplifier;

static md_status simplify(simplifier *s, const md_fx_node **out, const md_fx_node *n);
static md_status simplify_op(simplifier *s, const md_fx_node **out, const md_fx_node *n);

/* ---- making nodes ---- */

static md_fx_node *copy_of(simplifier *s, const md_fx_node *n)
{
    md_fx_node *const copy = md_fx_node_new(s->front->arena, n->kind, n->type);
    if (copy)
        *copy = *n;
    return copy;
}

static md_status constant(simplifier *s, const md_fx_node **out, const md_fx_node *at, md_dtype type, double num,
                          int64_t integer)
{
    md_fx_node *const n = md_fx_node_new(s->front->arena, MD_FX_CONST, type);
    if (!n)
        return md_fail_memory();
    n->num = n->exact = md_dtype_is_real(type) ? num : 0;
    n->integer = md_dtype_is_real(type) ? 0 : integer;
    n->line = at->line;
    n->column = at->column;
    *out = n;
    return MD_OK;
}

/* op(a, b), with the place in the text and all other fields of `at`. */
static md_status binary(simplifier *s, const md_fx_node **out, const md_fx_node *at, md_fx_op op, const md_fx_node *a,
                        const md_fx_node *b)
{
    md_fx_node *const n = md_fx_node_new(s->front->arena, MD_FX_OP, at->type);
    const md_fx_node **const arg = md_arena_alloc(s->front->arena, 2 * sizeof *arg);
    if (!n || !arg)
        return md_fail_memory();
    arg[0] = a;
    arg[1] = b;
    n->op = op;
    n->n_args = 2;
    n->arg = arg;
    n->line = at->line;
    n->column = at->column;
    *out = n;
    return MD_OK;
}

/* ---- examining ---- */

static bool is_const(const md_fx_node *n)
{
    return n->kind == MD_FX_CONST;
}

static bool is_integer(const md_fx_node *n, int64_t value)
{
    return is_const(n) && n->type == MD_I64 && n->integer == value;
}

static bool is_real(const md_fx_node *n, double value)
{
    return is_const(n) && md_dtype_is_real(n->type) && n->num == value && signbit(n->num) == signbit(value);
}

static bool is_number(const md_fx_node *n, int value)
{
    return is_integer(n, value) || is_real(n, value);
}

static bool is_truth(const md_fx_node *n, bool value)
{
    return is_const(n) && n->type == MD_BOOL && (n->integer != 0) == value;
}

static bool is_inert(void *user, const md_fx_node *n)
{
    (void)user;
    return n->kind == MD_FX_CONST || n->kind == MD_FX_INDEX || n->kind == MD_FX_SIZE || n->kind == MD_FX_OP ||
           n->kind == MD_FX_CAST;
}

/* True if it can go without a trace: no argument, no bound index is named in it. */
static bool may_go(const md_fx_node *n)
{
    return md_fx_visit(n, is_inert, NULL);
}

/* Nodes, shared ones counted each time; stops beyond `most`. */
static int count(const md_fx_node *n, int most)
{
    int sum = 1;
    for (int32_t i = 0; i < n->n_args && sum <= most; i++)
        sum += count(n->arg[i], most - sum);
    return sum;
}

/* ---- constants ---- */

/* Exact where kernels and the evaluator agree: f64 operations are computed alike; an f32 one when its double result is
 * an f32, for then rounding once or twice gives the same. */
static md_status fold_real(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    double x[3] = {0};
    if (md_fx_op_info(n->op)->rounding == MD_FX_APPROXIMATE)
        return MD_OK;
    for (int32_t i = 0; i < n->n_args; i++)
        x[i] = n->arg[i]->num;
    const double value = md_scalar_real(n->op)(x[0], x[1], x[2]);
    if (n->type == MD_F32 && value == value && (double)(float)value != value)
        return MD_OK;
    return constant(s, out, n, n->type, value, 0);
}

static md_status fold_constants(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    int64_t k[3] = {0};
    bool is_all_integer = true;
    for (int32_t i = 0; i < n->n_args; i++) {
        if (!is_const(n->arg[i]))
            return MD_OK;
        is_all_integer &= !md_dtype_is_real(n->arg[i]->type);
        k[i] = n->arg[i]->integer;
    }
    if (n->op == MD_FX_WHERE || n->op == MD_FX_STEP)
        return MD_OK;
    if (is_all_integer && md_scalar_int(n->op))
        return constant(s, out, n, n->type, 0, md_scalar_int(n->op)(k[0], k[1], k[2]));
    if (is_all_integer)
        return MD_OK;
    if (n->type == MD_BOOL)
        return constant(s, out, n, MD_BOOL, 0,
                        md_scalar_test(n->op)(n->arg[0]->num, n->n_args > 1 ? n->arg[1]->num : 0));
    return fold_real(s, out, n);
}

static md_status fold_cast(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    const md_fx_node *const a = n->arg[0];
    int64_t element = 0;
    if (md_dtype_is_real(a->type))
        md_dtype_store(n->to, &element, 0, a->num);
    else
        md_dtype_store_int(n->to, &element, 0, a->integer);
    MD_TRY(constant(s, out, n, n->type, md_dtype_load(n->to, &element, 0), md_dtype_load_int(n->to, &element, 0)));
    if (n->to == MD_F32)
        ((md_fx_node *)(uintptr_t)*out)->exact = md_dtype_is_real(a->type) ? a->exact : (double)a->integer;
    return MD_OK;
}

/* ---- identities ---- */

/* A scalar that is no declared f64 is read as either type. */
static md_status retype_scalar(simplifier *s, const md_fx_node **out, const md_fx_node *scalar, md_dtype type)
{
    md_fx_node *const copy = copy_of(s, scalar);
    if (!copy)
        return md_fail_memory();
    copy->type = type;
    *out = copy;
    return MD_OK;
}

static md_status simplify_cast(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    const md_fx_node *const a = n->arg[0];
    if (is_const(a))
        return fold_cast(s, out, n);
    const bool is_f32 = a->kind == MD_FX_SCALAR && s->front->formula->scalar[a->id].type == MD_F32;
    if (is_f32 && (n->to == MD_F32 || n->to == MD_F64))
        return retype_scalar(s, out, a, n->to);
    const bool is_identity = a->type == n->to || (a->kind == MD_FX_CAST && a->to == n->to) ||
                             (a->kind == MD_FX_LOAD && s->front->formula->tensor[a->id].dtype == n->to);
    if (is_identity)
        *out = a;
    return MD_OK;
}

static md_status simplify_where(const md_fx_node **out, const md_fx_node *n)
{
    for (int arm = 1; arm <= 2; arm++)
        if (is_truth(n->arg[0], arm == 1) && may_go(n->arg[3 - arm]))
            *out = n->arg[arm];
    return MD_OK;
}

static md_status simplify_logic(const md_fx_node **out, const md_fx_node *n)
{
    const bool neutral = n->op == MD_FX_AND;
    for (int i = 0; i < 2; i++) {
        const md_fx_node *const a = n->arg[i], *const other = n->arg[1 - i];
        if (is_truth(a, neutral))
            *out = other;
        else if (is_truth(a, !neutral) && may_go(other))
            *out = a;
    }
    return MD_OK;
}

static md_status simplify_pow(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    if (is_number(n->arg[1], 1))
        *out = n->arg[0];
    /* A compiler does the same with pow(x, 2.0); the product is rounded no worse. Reductions are not written twice. */
    else if (is_number(n->arg[1], 2) && count(n->arg[0], MAX_SQUARED) <= MAX_SQUARED &&
             !md_fx_has_kind(n->arg[0], MD_FX_REDUCE) && !md_fx_has_kind(n->arg[0], MD_FX_SCAN)) {
        MD_TRY(binary(s, out, n, MD_FX_MUL, n->arg[0], n->arg[0]));
        return simplify_op(s, out, *out);
    }
    return MD_OK;
}

/* x + 0 stays for reals: -0 + 0 is +0. */
static const md_fx_node *neutral_removed(const md_fx_node *n)
{
    const md_fx_node *const a = n->arg[0], *const b = n->n_args > 1 ? n->arg[1] : NULL;
    switch ((int)n->op) {
    case MD_FX_ADD:
        return is_integer(b, 0) || is_real(b, -0.0) ? a : is_integer(a, 0) || is_real(a, -0.0) ? b : n;
    case MD_FX_SUB:
        return is_number(b, 0) ? a : n;
    case MD_FX_MUL:
        return is_number(b, 1) ? a : is_number(a, 1) ? b : n;
    case MD_FX_DIV:
        return is_number(b, 1) ? a : n;
    case MD_FX_FLOORDIV:
        return is_integer(b, 1) ? a : n;
    case MD_FX_NEG:
    case MD_FX_NOT:
        return a->kind == MD_FX_OP && a->op == n->op ? a->arg[0] : n;
    default:
        return md_fx_op_info(n->op)->is_whole && a->type == MD_I64 ? a : n;
    }
}

static md_status simplify_op(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    MD_TRY(fold_constants(s, out, n));
    if (*out != n || s->in_subscript)
        return MD_OK;
    switch ((int)n->op) {
    case MD_FX_WHERE:
        return simplify_where(out, n);
    case MD_FX_AND:
    case MD_FX_OR:
        return simplify_logic(out, n);
    case MD_FX_POW:
        return simplify_pow(s, out, n);
    default:
        *out = neutral_removed(n);
        return MD_OK;
    }
}

/* mean = sum / size; of integers the sum is exact. */
static md_status lower_mean(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    md_fx_node *const sum = copy_of(s, n);
    const md_fx_node *total, *size = NULL;
    if (!sum)
        return md_fail_memory();
    sum->op = MD_FX_R_SUM;
    sum->type = n->arg[0]->type;
    total = sum;
    for (int32_t i = 0; i < n->n_bound; i++) {
        md_fx_node *const one = md_fx_node_new(s->front->arena, MD_FX_SIZE, MD_I64);
        if (!one)
            return md_fail_memory();
        one->id = s->front->formula->index[n->bound[i]].dim;
        one->line = n->line;
        one->column = n->column;
        if (size)
            MD_TRY(binary(s, &size, one, MD_FX_MUL, size, one));
        else
            size = one;
    }
    if (sum->type != n->type)
        total = md_fx_cast(s->front->arena, sum, n->type);
    size = md_fx_cast(s->front->arena, size, n->type);
    if (!total || !size)
        return md_fail_memory();
    MD_TRY(simplify(s, &size, size));
    MD_TRY(binary(s, out, n, MD_FX_DIV, total, size));
    return simplify_op(s, out, *out);
}

/* ---- the walk ---- */

static md_status simplify_args(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    const bool was_in_subscript = s->in_subscript;
    const md_fx_node **arg = NULL;
    s->in_subscript |= n->kind == MD_FX_LOAD;
    for (int32_t i = 0; i < n->n_args; i++) {
        const md_fx_node *a;
        MD_TRY(simplify(s, &a, n->arg[i]));
        if (a == n->arg[i])
            continue;
        if (!arg) {
            md_fx_node *const copy = copy_of(s, n);
            arg = md_arena_alloc(s->front->arena, (size_t)n->n_args * sizeof *arg);
            if (!copy || !arg)
                return md_fail_memory();
            memcpy(arg, n->arg, (size_t)n->n_args * sizeof *arg);
            copy->arg = arg;
            *out = copy;
        }
        arg[i] = a;
    }
    s->in_subscript = was_in_subscript;
    return MD_OK;
}

static md_status simplify(simplifier *s, const md_fx_node **out, const md_fx_node *n)
{
    *out = n;
    MD_TRY(simplify_args(s, out, n));
    n = *out;
    if (n->kind == MD_FX_SIZE && s->front->formula->dim[n->id].size >= 0)
        return constant(s, out, n, MD_I64, 0, s->front->formula->dim[n->id].size);
    if (n->kind == MD_FX_REDUCE && n->op == MD_FX_R_MEAN)
        return lower_mean(s, out, n);
    if (n->kind == MD_FX_CAST)
        return simplify_cast(s, out, n);
    return n->kind == MD_FX_OP ? simplify_op(s, out, n) : MD_OK;
}

md_status md_front_simplify(md_front *front)
{
    md_fx_formula *const f = front->formula;
    for (int32_t i = 0; i < f->n_stmts; i++) {
        simplifier s = {.front = front};
        MD_TRY(simplify(&s, &f->stmt[i].value, f->stmt[i].value));
        s.in_subscript = true;
        for (int32_t a = 0; a < f->tensor[f->stmt[i].tensor].rank; a++)
            MD_TRY(simplify(&s, &f->stmt[i].subscript[a], f->stmt[i].subscript[a]));
    }
    return MD_OK;
}
