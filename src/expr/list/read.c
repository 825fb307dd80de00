/* The first look at a formula over lists: what is a list, which value a name means where, and reductions over items as
 * lets of their own. */
#include "base/status.h"
#include "expr/diag.h"
#include "expr/list/inside.h"

#include <string.h>

#define COMPLAIN(r, at, ...) md_fx_complain((r)->text, (at)->line, (at)->column, __VA_ARGS__)

/* ---- Walks */

md_status md_fl_walk(md_syntax **at, md_fl_visit fn, void *user)
{
    for (int32_t i = 0; i < (*at)->n_args; i++)
        MD_TRY(md_fl_walk(&(*at)->arg[i], fn, user));
    return fn(user, at);
}

md_status md_fl_walk_stmt(const md_fl_stmt *s, md_fl_visit fn, void *user)
{
    MD_TRY(md_fl_walk(&s->item->value, fn, user));
    for (int32_t i = 0; i < s->item->target->n_args; i++)
        MD_TRY(md_fl_walk(&s->item->target->arg[i], fn, user));
    return MD_OK;
}

/* ---- Names */

int32_t md_fl_symbol_named(const md_fl_reader *r, const char *name)
{
    for (int32_t i = 0; i < r->n_symbols; i++)
        if (strcmp(r->symbol[i].name, name) == 0)
            return i;
    return -1;
}

/* True if the text has this name anywhere, even inside of longer ones. */
static bool is_in_text(const md_fl_reader *r, const char *name)
{
    return strstr(r->text, name) || md_fl_symbol_named(r, name) >= 0;
}

const char *md_fl_new_name(const md_fl_reader *r, const char *pattern, int32_t number)
{
    const char *name = md_arena_printf(r->arena, "%s_%d", pattern, (int)number);
    for (int k = 0; name && is_in_text(r, name); k++)
        name = md_arena_printf(r->arena, "%s_%d_%d", pattern, (int)number, k);
    return name;
}

static md_status find_base(md_fl_reader *r, int32_t *out, const md_syntax *at)
{
    for (*out = 0; *out < r->n_bases; ++*out) {
        const md_fl_base *b = &r->base[*out];
        if (strcmp(b->name, at->name) != 0)
            continue;
        if (b->is_list != at->over_list)
            return COMPLAIN(r, at, "'%s' is %s here, but %s at %d:%d", at->name,
                            at->over_list ? "a list" : "one tensor for all items",
                            at->over_list ? "one tensor for all items" : "a list", b->at->line, b->at->column);
        return MD_OK;
    }
    if (r->n_bases == MD_FL_MAX || r->n_symbols == MD_COUNT(r->symbol))
        return COMPLAIN(r, at, "more than %d tensors", MD_FX_MAX_TENSORS);
    r->symbol[r->n_symbols] = (md_fl_symbol){at->name, *out, -1, false, false};
    r->base[r->n_bases++] = (md_fl_base){.name = at->name,
                                         .at = at,
                                         .is_list = at->over_list,
                                         .now = r->n_symbols++,
                                         .last_read = -1,
                                         .last_write = -1,
                                         .write_stmt = -1};
    return MD_OK;
}

/* Lists and dtypes that the text declares anywhere hold for all of it. */
static md_status note_tensor(void *user, md_syntax **at)
{
    md_fl_reader *r = user;
    int32_t base;
    if ((*at)->kind != MD_SYNTAX_TENSOR)
        return MD_OK;
    MD_TRY(find_base(r, &base, *at));
    md_fl_base *b = &r->base[base];
    if ((*at)->dtype && b->dtype && b->dtype != (*at)->dtype)
        return COMPLAIN(r, *at, "'%s' is declared %s here, but %s before", b->name, md_dtype_name((*at)->dtype),
                        md_dtype_name(b->dtype));
    b->dtype = (*at)->dtype ? (*at)->dtype : b->dtype;
    return MD_OK;
}

static md_status note_tensors(md_fl_reader *r)
{
    for (int32_t i = 0; i < r->tree.n_items; i++) {
        md_syntax_item *item = &r->tree.item[i];
        for (int32_t k = 0; item->kind == MD_SYNTAX_TENSORS && k < item->n; k++)
            MD_TRY(note_tensor(r, &item->tensor[k]));
        if (item->kind != MD_SYNTAX_ASSIGN)
            continue;
        MD_TRY(md_fl_walk(&item->target, note_tensor, r));
        MD_TRY(md_fl_walk(&item->value, note_tensor, r));
    }
    return MD_OK;
}

/* ---- Values that are read */

typedef struct reading {
    md_fl_reader *r;
    int32_t depth; /* how many reductions over items enclose this place */
    bool is_item; /* the place is inside such a reduction */
    bool reads_list;
    const md_syntax *stray; /* an item that is read where no reduction over items encloses it */
} reading;

static md_status add_stmt(md_fl_reader *r, md_syntax_item *item, md_fl_kind kind, bool is_let, int32_t symbol)
{
    if (r->n_stmts == MD_COUNT(r->stmt))
        return COMPLAIN(r, item, "more than %d statements", MD_FL_MAX);
    r->stmt[r->n_stmts++] = (md_fl_stmt){.item = item, .kind = kind, .is_let = is_let, .symbol = symbol, .step = -1};
    return MD_OK;
}

static md_status add_item(md_fl_reader *r, md_syntax_item **out, md_syntax_item item)
{
    if (r->n_items == MD_COUNT(r->item))
        return md_fx_complain(r->text, item.line, item.column, "more than %d statements", MD_FL_MAX);
    *out = &r->item[r->n_items++];
    **out = item;
    return MD_OK;
}

static md_status new_syntax(md_fl_reader *r, md_syntax **out, md_syntax s)
{
    *out = md_arena_alloc(r->scratch, sizeof **out);
    if (!*out)
        return md_fail_memory();
    **out = s;
    return MD_OK;
}

/* The reduction becomes a let before the statement, and a read of it. */
static md_status take_out(md_fl_reader *r, md_syntax **at)
{
    md_syntax *target, *read;
    md_syntax_item *item = NULL;
    const md_syntax s = {.kind = MD_SYNTAX_TENSOR,
                         .name = md_fl_new_name(r, "all", r->n_stmts),
                         .line = (*at)->line,
                         .column = (*at)->column,
                         .depth = 1};
    int32_t base;
    if (!s.name)
        return md_fail_memory();
    MD_TRY(new_syntax(r, &target, s));
    MD_TRY(new_syntax(r, &read, s));
    MD_TRY(find_base(r, &base, target));
    MD_TRY(add_item(r, &item,
                    (md_syntax_item){.kind = MD_SYNTAX_ASSIGN,
                                     .is_let = true,
                                     .target = target,
                                     .value = *at,
                                     .line = s.line,
                                     .column = s.column}));
    r->symbol[r->base[base].now].stmt = r->n_stmts;
    r->symbol[r->base[base].now].is_read = true;
    r->base[base].is_let = r->base[base].is_written = r->base[base].is_read = true;
    MD_TRY(add_stmt(r, item, MD_FL_REDUCTION, true, r->base[base].now));
    *at = read;
    return MD_OK;
}

static md_status read_expression(reading *r, md_syntax **at);

static md_status read_tensor(reading *r, md_syntax *at)
{
    int32_t base;
    MD_TRY(find_base(r->r, &base, at));
    md_fl_base *b = &r->r->base[base];
    if (at->over_list && !r->is_item)
        return COMPLAIN(r->r, at,
                        "'%s@%s' needs an item: a result without '@%s' reads lists inside of a reduction over "
                        "%s, such as sum[%s,i](...)",
                        at->name, r->r->tree.list, r->r->tree.list, r->r->tree.list, r->r->tree.list);
    r->reads_list |= at->over_list;
    b->is_read |= r->r->symbol[b->now].stmt < 0;
    r->r->symbol[b->now].is_read = true;
    at->name = r->r->symbol[b->now].name;
    at->dtype = b->dtype;
    return MD_OK;
}

static md_status read_expression(reading *r, md_syntax **at)
{
    md_syntax *s = *at;
    const bool is_across = s->kind == MD_SYNTAX_BINDER && s->over_list;
    reading inner = *r;
    inner.is_item |= is_across;
    inner.reads_list = false;
    for (int32_t i = 0; i < s->n_args; i++)
        MD_TRY(read_expression(&inner, &s->arg[i]));
    r->reads_list |= inner.reads_list && !is_across;
    if (s->kind == MD_SYNTAX_TENSOR)
        return read_tensor(r, s);
    if (s->kind == MD_SYNTAX_SIZE && !r->is_item)
        return COMPLAIN(r->r, s, "size(%s) needs an item: items have sizes of their own", s->name);
    if (!is_across)
        return MD_OK;
    if (!inner.reads_list)
        return COMPLAIN(r->r, s, "'%s' over the items reads no list", s->name);
    return take_out(r->r, at);
}

/* ---- Statements */

static bool is_plain(const md_syntax *target)
{
    for (int32_t i = 0; i < target->n_args; i++)
        if (target->arg[i]->kind != MD_SYNTAX_NAME)
            return false;
    return true;
}

/* The memory of a tensor gets another value: the one before is a let if later statements replace it. */
static md_status new_value(md_fl_reader *r, md_fl_base *b, int32_t base, const md_syntax_item *item)
{
    const md_fl_symbol *before = &r->symbol[b->now];
    if (b->is_let || (item->is_let && (b->is_written || b->is_read)) || (b->is_written && !before->is_read))
        return COMPLAIN(r, item->target, "'%s' is assigned twice; the first time at %d:%d", b->name, b->at->line,
                        b->at->column);
    if (!b->is_written && !before->is_read)
        return MD_OK;
    if (r->n_symbols == MD_COUNT(r->symbol))
        return COMPLAIN(r, item->target, "more than %d tensors", MD_FX_MAX_TENSORS);
    if (before->stmt >= 0 && !r->stmt[before->stmt].updates)
        r->stmt[before->stmt].item->is_let = true;
    r->symbol[r->n_symbols] =
        (md_fl_symbol){md_fl_new_name(r, strlen(b->name) < 48 ? b->name : "new", r->n_symbols), base, -1, false, false};
    if (b->is_read && !b->dtype) /* the memory of this output is an input, too */
        b->dtype = r->options.dtype ? r->options.dtype : MD_F32;
    b->now = r->n_symbols++;
    return r->symbol[b->now].name ? MD_OK : md_fail_memory();
}

static md_status read_statement(md_fl_reader *r, const md_syntax_item *from)
{
    md_syntax_item own = *from, *item = NULL;
    md_syntax *target = own.target;
    int32_t base;
    reading reading_ = {.r = r, .is_item = target->over_list};
    const bool updates = own.assign != MD_FX_SET || !is_plain(target);
    if (!target->over_list && target->n_args > 0)
        return COMPLAIN(r, target, "'%s' is one result for all items and has no axes; an item's is written %s@%s[...]",
                        target->name, target->name, r->tree.list);
    MD_TRY(read_expression(&reading_, &own.value));
    for (int32_t i = 0; i < target->n_args; i++)
        MD_TRY(read_expression(&reading_, &target->arg[i]));
    MD_TRY(find_base(r, &base, target));
    md_fl_base *b = &r->base[base];
    if (updates && b->is_let)
        return COMPLAIN(r, target, "'%s' is assigned twice; the first time at %d:%d", b->name, b->at->line,
                        b->at->column);
    if (!updates)
        MD_TRY(new_value(r, b, base, &own));
    b->is_read |= updates && !b->is_written;
    b->is_written = true;
    b->is_let = own.is_let;
    target->name = r->symbol[b->now].name;
    target->dtype = b->dtype;
    if (r->symbol[b->now].stmt < 0)
        r->symbol[b->now].stmt = r->n_stmts;
    MD_TRY(add_item(r, &item, own));
    MD_TRY(add_stmt(r, item, target->over_list ? MD_FL_ITEMS : MD_FL_SCALARS, own.is_let, b->now));
    r->stmt[r->n_stmts - 1].updates = updates;
    return MD_OK;
}

md_status md_fl_read(md_fl_reader *r)
{
    MD_TRY(note_tensors(r));
    for (int32_t i = 0; i < r->tree.n_items; i++) {
        md_syntax_item *item;
        MD_TRY(r->tree.item[i].kind == MD_SYNTAX_ASSIGN ? read_statement(r, &r->tree.item[i])
                                                        : add_item(r, &item, r->tree.item[i]));
    }
    return MD_OK;
}
