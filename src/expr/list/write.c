/* Writes the formulas of steps and reductions, and the table of the names in them. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/diag.h"
#include "expr/list/inside.h"

#include <inttypes.h>
#include <string.h>

/* ---- Declarations: those of names that a text uses */

typedef struct use {
    const char *name;
    size_t length;
    bool is_used;
} use;

static md_status look_for(void *user, md_syntax **at)
{
    use *u = user;
    const char *name = (*at)->name;
    u->is_used |= (*at)->kind != MD_SYNTAX_CALL && name && strncmp(name, u->name, u->length) == 0 && !name[u->length];
    return MD_OK;
}

static bool is_used(const md_fl_reader *r, const char *name)
{
    use u = {name, strcspn(name, "."), false};
    for (int32_t i = 0; i < r->n_stmts; i++)
        if (r->stmt[i].needed) {
            (void)md_fl_walk_stmt(&r->stmt[i], look_for, &u);
            (void)look_for(&u, &r->stmt[i].item->target);
        }
    return u.is_used;
}

static void print_scalars(md_strbuf *out, const md_fl_reader *r)
{
    const md_fx_formula *f = r->list->item;
    for (int32_t i = 0; i < f->n_scalars; i++)
        if (is_used(r, f->scalar[i].name))
            md_strbuf_printf(out, "scalar %s:%s; ", f->scalar[i].name, md_dtype_name(f->scalar[i].type));
}

static void print_sizes(md_strbuf *out, const md_fl_reader *r)
{
    for (int32_t i = 0; i < r->n_items; i++)
        for (int32_t k = 0; r->item[i].kind == MD_SYNTAX_SIZES && k < r->item[i].n; k++) {
            const md_syntax_size *s = &r->item[i].size[k];
            if (!is_used(r, s->name))
                continue;
            md_strbuf_printf(out, "size %s=%" PRId64, s->name, s->lo);
            if (s->hi != s->lo)
                md_strbuf_add(out, "..");
            if (s->hi != s->lo && s->hi != INT64_MAX)
                md_strbuf_printf(out, "%" PRId64, s->hi);
            md_strbuf_add(out, "; ");
        }
}

/* ---- Statements */

/* True for a value that only this step's text needs. */
static bool is_let_here(const md_fl_reader *r, const md_fl_stmt *s)
{
    const md_fl_symbol *own = &r->symbol[s->symbol];
    if (s->is_let)
        return s->kind == MD_FL_ITEMS || !own->is_kept;
    for (const md_fl_stmt *later = s + 1; later < r->stmt + r->n_stmts; later++)
        if (later->needed && later->symbol != s->symbol && r->symbol[later->symbol].base == own->base)
            return true;
    return false;
}

static void print_stmt(md_strbuf *out, const md_fl_reader *r, const md_fl_stmt *s, const char *flat)
{
    static const char *const sign[] = {[MD_FX_SET] = "=",
                                       [MD_FX_ADD_TO] = "+=",
                                       [MD_FX_MUL_TO] = "*=",
                                       [MD_FX_MAX_TO] = "max=",
                                       [MD_FX_MIN_TO] = "min="};
    md_strbuf_add(out, is_let_here(r, s) ? "let " : "");
    md_fl_print(out, r, s->item->target, flat);
    md_strbuf_printf(out, " %s ", sign[s->item->assign]);
    md_fl_print(out, r, s->item->value, flat);
    md_strbuf_add(out, "; ");
}

static void print_needed(md_strbuf *out, const md_fl_reader *r, const char *flat)
{
    for (int32_t i = 0; i < r->n_stmts; i++)
        if (r->stmt[i].needed && r->stmt[i].kind != MD_FL_REDUCTION)
            print_stmt(out, r, &r->stmt[i], flat);
}

/* The text must be a formula by itself. It is none where it asks for a size that only other steps know. */
static md_status finish_text(const char **out, md_fl_reader *r, md_strbuf *b)
{
    md_fx_formula *alone = NULL;
    const md_fx_options options = {.dtype = r->options.dtype, .bounds = r->options.bounds};
    *out = b->failed ? NULL : md_arena_text(r->arena, md_strbuf_text(b));
    md_strbuf_finish(b);
    if (!*out)
        return md_fail_memory();
    const md_status s = md_fx_formula_create(&alone, *out, &options);
    md_fx_formula_destroy(&alone);
    return s == MD_OK ? s : md_fail_more(s, " (this is one of the passes over the lists that the formula becomes)");
}

/* ---- Reductions */

typedef struct flatness {
    const md_fl_reader *r;
    const md_syntax *like; /* an item that is read; all others must have the same subscripts */
    bool is_flat;
    int32_t n_names; /* names outside of subscripts: only scalars may stand there */
    int32_t n_subscripts;
} flatness;

static md_status look_at_flat(void *user, md_syntax **at)
{
    flatness *f = user;
    const md_syntax *s = *at;
    if (s->kind == MD_SYNTAX_TENSOR && s->over_list) {
        f->like = f->like ? f->like : s;
        f->is_flat &= md_syntax_is_same_element(f->like, s) && s->n_args > 0;
        f->n_subscripts += s->n_args;
    } else if (s->kind == MD_SYNTAX_TENSOR) {
        f->is_flat &= s->n_args == 0;
    } else if (s->kind == MD_SYNTAX_NAME) {
        for (int32_t i = 0; f->like && i < f->like->n_args; i++)
            f->n_names += f->like->arg[i]->kind == MD_SYNTAX_NAME && strcmp(f->like->arg[i]->name, s->name) == 0;
    } else {
        f->is_flat &= s->kind != MD_SYNTAX_SIZE && s->kind != MD_SYNTAX_BINDER;
    }
    return MD_OK;
}

/* True if the items of an expression are only sequences of elements to it: all have the same subscripts, `like`'s if
 * that is given, and those are used for nothing else. */
static bool is_flat(const md_fl_reader *r, md_syntax *value, const md_syntax *like, const md_syntax **found)
{
    flatness f = {.r = r, .like = like, .is_flat = true};
    (void)md_fl_walk(&value, look_at_flat, &f);
    f.n_names = f.n_subscripts = 0;
    (void)md_fl_walk(&value, look_at_flat, &f);
    *found = f.like;
    return f.is_flat && f.like && f.n_names == f.n_subscripts;
}

/* True if the names are as many as the subscripts, and all different, and each is a subscript. */
static bool has_indices(const md_syntax *like, int32_t n, md_syntax *const *index)
{
    if (like->n_args != n)
        return false;
    for (int32_t i = 0; i < n; i++) {
        int32_t hits = 0;
        for (int32_t k = 0; k < n; k++)
            hits += strcmp(like->arg[k]->name, index[i]->name) == 0;
        if (hits != 1)
            return false;
    }
    return true;
}

static bool can_be_flat(const md_fl_reader *r, const md_fl_stmt *s)
{
    const md_syntax *binder = s->item->value, *like;
    if (!is_flat(r, binder->arg[0], NULL, &like) || !has_indices(like, binder->n_indices, binder->index))
        return false;
    for (int32_t i = 0; i < r->n_stmts; i++) {
        const md_syntax *target = r->stmt[i].item->target;
        if (!r->stmt[i].needed || r->stmt[i].kind == MD_FL_REDUCTION)
            continue;
        if (r->stmt[i].updates || !is_flat(r, r->stmt[i].item->value, target, &like) ||
            !has_indices(target, target->n_args, target->arg))
            return false;
    }
    return true;
}

/* part[b] = op[e](body), or part[] = op[i,j](body) */
static md_status write_reduction(md_fl_reader *r, const char **out, const md_fl_stmt *s, const char *const flat[2])
{
    md_strbuf b = {0};
    const md_syntax *binder = s->item->value;
    const md_fx_list_reduction *own = &r->list->reduction[r->list->n_reductions];
    const char *part = r->list->name[r->list->n_names - 1].name;
    const bool is_truth = s->item->value->op == MD_FX_R_ANY || binder->op == MD_FX_R_ALL;
    const char *subscript = flat ? md_arena_printf(r->scratch, "%s, %s", flat[0], flat[1]) : NULL;
    if (flat && !subscript)
        return md_fail_memory();
    print_scalars(&b, r);
    if (!flat)
        print_sizes(&b, r);
    print_needed(&b, r, subscript);
    md_strbuf_printf(&b, "%s:%s[%s] = ", part, md_dtype_name(own->dtype), flat ? flat[0] : "");
    md_strbuf_add(&b, flat || binder->n_indices ? binder->name : "");
    md_strbuf_printf(&b, flat || binder->n_indices ? "[" : "(");
    if (flat)
        md_strbuf_add(&b, flat[1]);
    for (int32_t i = 0; !flat && i < binder->n_indices; i++)
        md_strbuf_printf(&b, "%s%s", i ? "," : "", binder->index[i]->name);
    md_strbuf_add(&b, flat || binder->n_indices ? "](" : "");
    md_fl_print(&b, r, binder->arg[0], subscript);
    md_strbuf_add(&b, is_truth && !flat && !binder->n_indices ? ") != 0" : ")");
    return finish_text(out, r, &b);
}

static md_status add_name(md_fl_reader *r, md_fx_list_name name)
{
    if (!name.name)
        return md_fail_memory();
    if (r->list->n_names == MD_COUNT(r->list->name))
        return md_fail(MD_INVALID_ARGUMENT, "the formula has too many tensors");
    r->list->name[r->list->n_names++] = name;
    return MD_OK;
}

static md_dtype dtype_of(const md_fl_reader *r, const char *name)
{
    const md_fx_formula *f = r->list->item;
    for (int32_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return f->tensor[i].dtype;
    return MD_DTYPE_DEFAULT;
}

static md_status add_reduction(md_fl_reader *r, int32_t stmt)
{
    const int32_t id = r->list->n_reductions;
    const md_fl_stmt *s = &r->stmt[stmt];
    const char *const flat[2] = {md_fl_new_name(r, "tile", 0), md_fl_new_name(r, "at", 0)};
    md_fx_list_reduction *own = &r->list->reduction[id];
    if (!flat[0] || !flat[1])
        return md_fail_memory();
    *own = (md_fx_list_reduction){
        .step = s->step, .dtype = dtype_of(r, s->item->target->name), .op = md_fx_op_text(s->item->value->op)};
    MD_TRY(add_name(r, (md_fx_list_name){md_fl_new_name(r, "part", stmt), MD_FX_NAME_PARTIAL, id, own->dtype}));
    for (int32_t i = 0; i < r->n_stmts; i++)
        r->stmt[i].needed = i == stmt;
    md_fl_mark_lets(r, stmt);
    if (can_be_flat(r, s))
        MD_TRY(write_reduction(r, &own->flat, s, flat));
    MD_TRY(write_reduction(r, &own->whole, s, NULL));
    r->list->n_reductions++;
    return MD_OK;
}

/* Closes a reduction: the sum, maximum and so on of all its partial results. */
static void print_end(md_strbuf *out, const md_fl_reader *r, const md_fl_stmt *s)
{
    const int32_t stmt = (int32_t)(s - r->stmt);
    int32_t id = 0;
    const char *k = md_fl_new_name(r, "k", stmt);
    for (int32_t i = 0; i < stmt; i++)
        id += r->stmt[i].kind == MD_FL_REDUCTION && r->stmt[i].is_live;
    for (int32_t i = 0; i < r->list->n_names; i++) {
        const md_fx_list_name *name = &r->list->name[i];
        if (name->kind != MD_FX_NAME_PARTIAL || name->id != id)
            continue;
        md_strbuf_add(out, r->symbol[s->symbol].is_kept ? "" : "let ");
        md_fl_print(out, r, s->item->target, NULL);
        md_strbuf_printf(out, " = %s[%s](%s:%s[%s]); ", s->item->value->name, k ? k : "", name->name,
                         md_dtype_name(name->dtype), k ? k : "");
    }
}

/* ---- All */

static md_status write_step(md_fl_reader *r, int32_t step)
{
    md_strbuf b = {0};
    md_fx_list_step *own = &r->list->step[step];
    if (own->kind == MD_FX_STEP_REDUCE)
        return MD_OK;
    md_fl_mark_step(r, step);
    print_scalars(&b, r);
    if (own->kind == MD_FX_STEP_ITEMS)
        print_sizes(&b, r);
    for (int32_t i = 0; i < r->n_stmts; i++)
        if (r->stmt[i].is_live && r->stmt[i].kind == MD_FL_REDUCTION && r->stmt[i].step + 1 == step)
            print_end(&b, r, &r->stmt[i]);
    print_needed(&b, r, NULL);
    return finish_text(&own->text, r, &b);
}

/* The arguments of one item, those of one memory being one argument; scalars have no base. */
static md_status add_arg(md_fl_reader *r, const char *name, const md_fl_base *base, md_fx_list_arg arg)
{
    for (int32_t i = 0; i < r->list->n_args; i++)
        if (strcmp(r->list->arg[i].name, name) == 0) {
            if (r->list->arg[i].dtype == arg.dtype)
                return MD_OK;
            return md_fx_complain(r->text, base->at->line, base->at->column,
                                  "'%s' would hold values of %s and of %s; declare its dtype", name,
                                  md_dtype_name(r->list->arg[i].dtype), md_dtype_name(arg.dtype));
        }
    arg.name = md_arena_text(r->arena, name);
    r->list->arg[r->list->n_args++] = arg;
    return arg.name ? MD_OK : md_fail_memory();
}

static md_status collect_args(md_fl_reader *r)
{
    const md_fx_formula *f = r->list->item;
    for (int32_t i = 0; i < f->n_args; i++) {
        const int32_t id = f->args[i].id;
        const md_fx_tensor *t = &f->tensor[id];
        if (f->args[i].is_scalar) {
            MD_TRY(
                add_arg(r, f->scalar[id].name, NULL, (md_fx_list_arg){.is_scalar = true, .dtype = f->scalar[id].type}));
            continue;
        }
        const md_fl_base *b = &r->base[r->symbol[md_fl_symbol_named(r, t->name)].base];
        if (!b->is_let)
            MD_TRY(add_arg(r, b->name, b,
                           (md_fx_list_arg){NULL, false, b->is_list, b->is_read, b->is_written, t->dtype, t->rank}));
    }
    return MD_OK;
}

/* Where a name stands first: its line, then its column. */
static int64_t place_of(const md_fl_reader *r, const char *name)
{
    for (int32_t i = 0; i < r->n_bases; i++)
        if (strcmp(r->base[i].name, name) == 0)
            return (int64_t)r->base[i].at->line * MD_LEX_MAX_TEXT * 2 + r->base[i].at->column;
    for (int32_t i = 0; i < r->n_items; i++)
        for (int32_t k = 0; r->item[i].kind == MD_SYNTAX_SCALARS && k < r->item[i].n; k++)
            if (strcmp(r->item[i].scalar[k].name, name) == 0)
                return (int64_t)r->item[i].scalar[k].line * MD_LEX_MAX_TEXT * 2 + r->item[i].scalar[k].column;
    return 0;
}

/* One item's formula has reductions over items before the statements that hold them: the text's order counts. */
static void sort_args(md_fl_reader *r)
{
    for (int32_t i = 1; i < r->list->n_args; i++) {
        const md_fx_list_arg own = r->list->arg[i];
        int32_t k = i;
        for (; k > 0 && place_of(r, r->list->arg[k - 1].name) > place_of(r, own.name); k--)
            r->list->arg[k] = r->list->arg[k - 1];
        r->list->arg[k] = own;
    }
}

static int32_t arg_named(const md_fx_list *list, const char *name)
{
    for (int32_t i = 0; i < list->n_args; i++)
        if (strcmp(list->arg[i].name, name) == 0)
            return i;
    return -1;
}

/* The arguments, and what all names mean. */
static md_status write_names(md_fl_reader *r)
{
    md_fx_list *list = r->list;
    MD_TRY(collect_args(r));
    sort_args(r);
    for (int32_t i = 0; i < list->n_args; i++)
        if (list->arg[i].is_scalar)
            MD_TRY(add_name(r, (md_fx_list_name){list->arg[i].name, MD_FX_NAME_ARG, i, list->arg[i].dtype}));
    for (int32_t i = 0; i < r->n_symbols; i++) {
        const md_fl_symbol *s = &r->symbol[i];
        const md_fl_base *b = &r->base[s->base];
        const int32_t arg = arg_named(list, b->name);
        md_fx_list_name name = {md_arena_text(r->arena, s->name), MD_FX_NAME_ARG, arg, dtype_of(r, s->name)};
        if (arg < 0 && (b->is_list || !s->is_kept))
            continue;
        if (arg < 0) {
            name.kind = MD_FX_NAME_VALUE;
            name.id = list->n_values++;
        }
        MD_TRY(add_name(r, name));
    }
    return MD_OK;
}

md_status md_fl_write(md_fl_reader *r)
{
    MD_TRY(write_names(r));
    for (int32_t i = 0; i < r->n_stmts; i++)
        if (r->stmt[i].kind == MD_FL_REDUCTION && r->stmt[i].is_live)
            MD_TRY(add_reduction(r, i));
    for (int32_t i = 0; i < r->list->n_steps; i++)
        MD_TRY(write_step(r, i));
    return MD_OK;
}
