/* Formulas as text. Parsing the text again gives the same formula: it has the dtypes of all arguments
 * and static sizes, and a constant carries its type, f32(2), where its partners give it none. */
#include "base/dtype.h"
#include "base/strbuf.h"
#include "expr/digits.h"
#include "expr/formula.h"
#include "expr/node.h"
#include "expr/order.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct printer {
    md_strbuf *out;
    const md_fx_formula *formula;
    bool with_types; /* print a tensor's dtype where it first appears */
    bool is_begun; /* a statement was printed before */
    bool is_wide; /* what is computed in f64 because only scalars are in it: f32 to a reader, who widens it again */
    bool is_typed[MD_FX_MAX_TENSORS];
} printer;

static void print(printer *p, const md_fx_node *n, int level, bool is_anchored);

/* ---- numbers ---- */

static bool is_negative(const md_fx_node *n)
{
    return md_dtype_is_real(n->type) ? signbit(n->num) && !isnan(n->num) : n->integer < 0;
}

static void print_constant(printer *p, const md_fx_node *n, int level, bool is_anchored)
{
    if (n->type == MD_BOOL) {
        md_strbuf_add(p->out, n->integer ? "true" : "false");
        return;
    }
    const bool needs_parentheses = is_anchored && is_negative(n) && level > MD_FX_LEVEL_SIGN;
    if (!is_anchored)
        md_strbuf_add(p->out, p->is_wide && n->type == MD_F64 ? "f32" : md_dtype_name(n->type));
    if (!is_anchored || needs_parentheses)
        md_strbuf_add(p->out, "(");
    md_fx_print_number(p->out, n->type, n->integer, n->num);
    if (!is_anchored || needs_parentheses)
        md_strbuf_add(p->out, ")");
}

/* ---- names ---- */

/* An index name that means this dim wherever it stands, NULL if there is none. */
static const char *name_of_dim(const md_fx_formula *f, int32_t dim)
{
    for (int32_t i = 0; i < f->n_indices; i++) {
        bool is_clear = f->index[i].dim == dim;
        for (int32_t k = 0; is_clear && k < f->n_indices; k++)
            is_clear = f->index[k].dim == dim || strcmp(f->index[k].name, f->index[i].name) != 0;
        if (is_clear)
            return f->index[i].name;
    }
    return NULL;
}

static void print_size(printer *p, int32_t dim)
{
    const md_fx_formula *const f = p->formula;
    const char *const name = name_of_dim(f, dim);
    if (name) {
        md_strbuf_printf(p->out, "size(%s)", name);
        return;
    }
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            if (f->tensor[t].dim[a] == dim) {
                md_strbuf_printf(p->out, "size(%s.%d)", f->tensor[t].name, a);
                return;
            }
    md_strbuf_printf(p->out, "size(%s)", f->dim[dim].name);
}

static void print_type(printer *p, int32_t id)
{
    const md_fx_tensor *const t = &p->formula->tensor[id];
    if (p->with_types && !p->is_typed[id] && (t->role != MD_FX_TEMP || t->is_declared))
        md_strbuf_printf(p->out, ":%s", md_dtype_name(t->dtype));
    p->is_typed[id] = true;
}

static void print_tensor(printer *p, int32_t id, int32_t n, const md_fx_node *const *subscript)
{
    md_strbuf_add(p->out, p->formula->tensor[id].name);
    print_type(p, id);
    md_strbuf_add(p->out, "[");
    for (int32_t i = 0; i < n; i++) {
        md_strbuf_add(p->out, i ? "," : "");
        print(p, subscript[i], MD_FX_LEVEL_ANY, true);
    }
    md_strbuf_add(p->out, "]");
}

/* ---- operations ---- */

static int level_of(md_fx_op op)
{
    const md_fx_level level = md_fx_op_info(op)->level;
    return level ? level : MD_FX_LEVEL_PRIMARY;
}

/* The condition of a where has no part in the type of the rest. */
static int32_t first_typed(const md_fx_node *n)
{
    return n->op == MD_FX_WHERE ? 1 : 0;
}

/* True if the printed node would be weak: made of literals, conditions aside. */
static bool is_weak(const md_fx_node *n)
{
    if (n->kind == MD_FX_CONST)
        return n->type != MD_BOOL;
    if (n->kind != MD_FX_OP || n->type == MD_BOOL)
        return false;
    for (int32_t i = first_typed(n); i < n->n_args; i++)
        if (!is_weak(n->arg[i]))
            return false;
    return true;
}

static bool is_all_constant(const md_fx_node *n)
{
    for (int32_t i = 0; i < n->n_args; i++)
        if (n->arg[i]->kind != MD_FX_CONST)
            return false;
    return true;
}

/* True if literals among the operands get their type from elsewhere: from an operand that has one, or, where none has,
 * from the operation's surroundings. Literals alone would be folded in double when read again, so they say their
 * type. */
static bool anchors_operands(const md_fx_node *n, bool is_anchored)
{
    for (int32_t i = first_typed(n); i < n->n_args; i++)
        if (!is_weak(n->arg[i]))
            return true;
    return is_anchored && n->type != MD_BOOL && !is_all_constant(n);
}

static void print_operator(printer *p, const md_fx_node *n, bool anchors)
{
    const int level = level_of(n->op);
    const bool is_prefix = n->n_args == 1;
    if (is_prefix) {
        md_strbuf_add(p->out, n->op == MD_FX_NOT ? "not " : md_fx_op_text(n->op));
        print(p, n->arg[0], level, anchors);
        return;
    }
    /* Operators group to the left; comparisons do not group. */
    print(p, n->arg[0], level == MD_FX_LEVEL_COMPARE ? level + 1 : level, anchors);
    md_strbuf_printf(p->out, " %s ", md_fx_op_text(n->op));
    print(p, n->arg[1], level + 1, anchors);
}

static void print_op(printer *p, const md_fx_node *n, int level, bool is_anchored)
{
    const bool anchors = anchors_operands(n, is_anchored);
    const int own = level_of(n->op);
    if (own == MD_FX_LEVEL_PRIMARY) {
        md_strbuf_printf(p->out, "%s(", md_fx_op_text(n->op));
        for (int32_t i = 0; i < n->n_args; i++) {
            md_strbuf_add(p->out, i ? ", " : "");
            print(p, n->arg[i], MD_FX_LEVEL_ANY, anchors && i >= first_typed(n));
        }
        md_strbuf_add(p->out, ")");
        return;
    }
    md_strbuf_add(p->out, own < level ? "(" : "");
    print_operator(p, n, anchors);
    md_strbuf_add(p->out, own < level ? ")" : "");
}

static void print_binder(printer *p, const md_fx_node *n)
{
    md_strbuf_printf(p->out, "%s[", md_fx_op_text(n->op));
    for (int32_t i = 0; i < n->n_bound; i++)
        md_strbuf_printf(p->out, "%s%s", i ? "," : "", p->formula->index[n->bound[i]].name);
    md_strbuf_add(p->out, "](");
    const bool is_pair = md_fx_is_recurrence(n->op);
    const md_fx_node *const *const arg = is_pair ? n->arg[0]->arg : n->arg;
    for (int32_t i = 0; i < (is_pair ? n->arg[0]->n_args : 1); i++) {
        md_strbuf_add(p->out, i ? ", " : "");
        print(p, arg[i], MD_FX_LEVEL_ANY, false);
    }
    md_strbuf_add(p->out, n->unbiased ? ", unbiased" : "");
    md_strbuf_add(p->out, n->exclusive ? ", exclusive" : "");
    md_strbuf_add(p->out, n->reverse ? ", reverse" : "");
    md_strbuf_add(p->out, ")");
}

static bool is_scalar_term(void *user, const md_fx_node *n)
{
    const md_fx_formula *const f = user;
    if (n->kind == MD_FX_SCALAR)
        return f->scalar[n->id].type != MD_F64;
    return n->kind == MD_FX_CONST || n->kind == MD_FX_SIZE || n->kind == MD_FX_OP || n->kind == MD_FX_CAST;
}

/* True for a conversion or a test of what the front end widened: a reader makes it anew of f32. */
static bool is_of_widened(const md_fx_formula *f, const md_fx_node *n)
{
    if (n->kind == MD_FX_CAST && (n->to == MD_F64 || n->arg[0]->kind != MD_FX_OP))
        return false;
    return n->arg[0]->type == MD_F64 && md_fx_has_kind(n, MD_FX_SCALAR) &&
           md_fx_visit(n, is_scalar_term, (void *)(uintptr_t)f);
}

/* A load or a conversion. What is unsigned to a reader has become operations on i64. */
static void print_bits(printer *p, const md_fx_node *n, md_dtype type)
{
    md_strbuf_add(p->out, type == MD_U64 ? "i64(" : "");
    if (n->kind == MD_FX_CAST) {
        md_strbuf_printf(p->out, "%s(", md_dtype_name(type));
        print(p, n->arg[0], MD_FX_LEVEL_ANY, false);
        md_strbuf_add(p->out, ")");
    } else {
        print_tensor(p, n->id, n->n_args, n->arg);
    }
    md_strbuf_add(p->out, type == MD_U64 ? ")" : "");
}

static void print_scalar(printer *p, const md_fx_node *n)
{
    const md_fx_scalar *const s = &p->formula->scalar[n->id];
    const bool says_type = !p->is_wide && n->type == MD_F64 && s->type == MD_F32;
    md_strbuf_printf(p->out, says_type ? "f64(%s)" : "%s", s->name);
}

/* A conversion or an operation. Where the front end widened its operands, they are printed as they were. */
static void print_value(printer *p, const md_fx_node *n, int level, bool is_anchored)
{
    const bool was_wide = p->is_wide;
    if (n->type == MD_BOOL || n->kind == MD_FX_CAST) /* its operands may be of another type, and not widened */
        p->is_wide = is_of_widened(p->formula, n);
    if (n->kind == MD_FX_OP)
        print_op(p, n, level, is_anchored);
    else if (n->to == MD_F32 && p->is_wide && !was_wide)
        print(p, n->arg[0], level, is_anchored);
    else
        print_bits(p, n, was_wide && n->to == MD_F64 ? MD_F32 : n->to);
    p->is_wide = was_wide;
}

static void print(printer *p, const md_fx_node *n, int level, bool is_anchored)
{
    switch (n->kind) {
    case MD_FX_CONST:
        print_constant(p, n, level, is_anchored);
        break;
    case MD_FX_INDEX:
        md_strbuf_add(p->out, p->formula->index[n->id].name);
        break;
    case MD_FX_SIZE:
        print_size(p, n->id);
        break;
    case MD_FX_SCALAR:
        print_scalar(p, n);
        break;
    case MD_FX_LOAD:
        print_bits(p, n, p->formula->tensor[n->id].dtype);
        break;
    case MD_FX_OP:
    case MD_FX_CAST:
        print_value(p, n, level, is_anchored);
        break;
    case MD_FX_REDUCE:
    case MD_FX_SCAN:
        print_binder(p, n);
        break;
    case MD_FX_CHECK: /* parsing makes both anew */
    case MD_FX_LENGTH:
        print(p, n->arg[0], level, is_anchored);
        break;
    case MD_FX_REF: /* these two are the stage layer's and cannot be parsed */
        md_strbuf_printf(p->out, "$%d", n->id);
        break;
    case MD_FX_COUNT:
        md_strbuf_add(p->out, "$count");
        break;
    }
}

void md_fx_print_node(md_strbuf *out, const md_fx_formula *formula, const md_fx_node *node)
{
    printer p = {.out = out, .formula = formula};
    print(&p, node, MD_FX_LEVEL_ANY, true);
}

/* ---- statements ---- */

static void begin_statement(printer *p)
{
    md_strbuf_add(p->out, p->is_begun ? "; " : "");
    p->is_begun = true;
}

/* The next entry of a declaration, which its first entry begins. */
static void begin_entry(printer *p, const char *word, bool *is_begun)
{
    if (!*is_begun)
        begin_statement(p);
    md_strbuf_add(p->out, *is_begun ? ", " : word);
    *is_begun = true;
}

static void print_sizes(printer *p)
{
    const md_fx_formula *const f = p->formula;
    bool is_begun = false;
    for (int32_t i = 0; i < f->n_dims; i++) {
        const md_fx_dim *const d = &f->dim[i];
        if (d->size < 0 && d->lo == 0 && d->hi == INT64_MAX)
            continue;
        begin_entry(p, "size ", &is_begun);
        md_strbuf_printf(p->out, "%s=%lld", d->name, (long long)(d->size >= 0 ? d->size : d->lo));
        if (d->size < 0)
            md_strbuf_add(p->out, "..");
        if (d->size < 0 && d->hi != INT64_MAX)
            md_strbuf_printf(p->out, "%lld", (long long)d->hi);
    }
}

/* Scalars are declared as early as the order of arguments allows: where every argument before them has appeared. */
static bool print_scalars(printer *p, int32_t *n_done)
{
    const md_fx_formula *const f = p->formula;
    bool is_begun = false;
    for (; *n_done < f->n_args; ++*n_done) {
        const md_fx_arg a = f->args[*n_done];
        if (!a.is_scalar && !p->is_typed[a.id])
            break;
        if (!a.is_scalar || f->scalar[a.id].is_size)
            continue;
        begin_entry(p, "scalar ", &is_begun);
        md_strbuf_printf(p->out, "%s:%s", f->scalar[a.id].name, md_dtype_name(f->scalar[a.id].type));
    }
    return is_begun;
}

/* All tensors by their numbers, where the statements name them in another order. */
static void print_tensors(printer *p, int32_t *n_scalars)
{
    bool is_begun = false;
    for (int32_t id = 0; id < p->formula->n_tensors; id++) {
        is_begun &= !print_scalars(p, n_scalars);
        begin_entry(p, "tensor ", &is_begun);
        md_strbuf_add(p->out, p->formula->tensor[id].name);
        print_type(p, id);
        for (int32_t i = 0; i < p->formula->tensor[id].rank; i++)
            md_strbuf_add(p->out, i ? ",i" : "[i");
        md_strbuf_add(p->out, p->formula->tensor[id].rank ? "]" : "[]");
    }
}

static void print_statement(printer *p, const md_fx_stmt *s)
{
    static const char *const assigns[] = {[MD_FX_SET] = "=",
                                          [MD_FX_ADD_TO] = "+=",
                                          [MD_FX_MUL_TO] = "*=",
                                          [MD_FX_MAX_TO] = "max=",
                                          [MD_FX_MIN_TO] = "min="};
    const md_fx_tensor *const t = &p->formula->tensor[s->tensor];
    begin_statement(p);
    md_strbuf_add(p->out, t->role == MD_FX_TEMP ? "let " : "");
    print_tensor(p, s->tensor, t->rank, s->subscript);
    md_strbuf_printf(p->out, " %s ", assigns[s->assign]);
    const bool gives_type = t->role != MD_FX_TEMP || t->is_declared;
    print(p, s->value, MD_FX_LEVEL_ANY, gives_type && md_dtype_compute(t->dtype) == s->value->type);
}

void md_fx_print(md_strbuf *out, const md_fx_formula *formula)
{
    printer p = {.out = out, .formula = formula, .with_types = true};
    int32_t n_done = 0;
    print_sizes(&p);
    if (!md_fx_is_in_order(formula))
        print_tensors(&p, &n_done);
    for (int32_t i = 0; i < formula->n_stmts; i++) {
        (void)print_scalars(&p, &n_done);
        print_statement(&p, &formula->stmt[i]);
    }
    (void)print_scalars(&p, &n_done);
}
