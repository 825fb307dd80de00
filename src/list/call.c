/* Runs the steps of a formula over lists: combos over the items, and small ops for the numbers between them. */
#include "base/status.h"
#include "base/strbuf.h"
#include "list/list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory */

static md_status add_memory(md_li_memory **list, md_context *context, md_stream stream, size_t n_bytes)
{
    md_li_memory *m = calloc(1, sizeof *m);
    void *p = NULL;
    if (!m || md_alloc(&p, context, n_bytes) != MD_OK) {
        free(m);
        return md_fail_memory();
    }
    *m = (md_li_memory){stream, p, n_bytes, *list};
    *list = m;
    return MD_OK;
}

/* The stream's memory, of n bytes at least. What it had before may be in use by work that is enqueued. A captured call
 * has memory of its own, since its graph may run beside other work. */
static md_status find_memory(md_li_call *call, size_t n_bytes)
{
    md_list *list = call->list;
    if (md_ds_is_capturing(&list->context->runtime, call->stream)) {
        MD_TRY(add_memory(&list->retired, list->context, call->stream, n_bytes));
        call->memory = list->retired->p;
        return MD_OK;
    }
    md_li_memory *m = list->memory;
    while (m && m->stream != call->stream)
        m = m->next;
    if (!m || m->n_bytes < n_bytes) {
        MD_TRY(add_memory(m ? &list->retired : &list->memory, list->context, call->stream, n_bytes));
        if (m) { /* the smaller block retires instead */
            const md_li_memory small = *m;
            m->p = list->retired->p;
            m->n_bytes = n_bytes;
            list->retired->p = small.p;
            list->retired->n_bytes = small.n_bytes;
        }
        m = m ? m : list->memory;
    }
    call->memory = m->p;
    return MD_OK;
}

/* ---- Parts: lists of arguments */

typedef struct parts {
    md_combo_part part[2 * MD_FX_MAX_STMTS];
    md_arg *args[2 * MD_FX_MAX_STMTS];
    md_tensor *room[2 * MD_FX_MAX_STMTS];
    int32_t n;
} parts;

/* Room for n items of an op. */
static md_status begin_part(parts *p, const md_li_op *op, int64_t n_items)
{
    const size_t n = (size_t)n_items * (size_t)op->n_args + 1;
    const int32_t i = p->n++;
    p->args[i] = malloc(n * sizeof(md_arg));
    p->room[i] = malloc(n * sizeof(md_tensor));
    p->part[i] = (md_combo_part){.op = op->op, .args = p->args[i], .n_args = op->n_args};
    return p->args[i] && p->room[i] ? MD_OK : md_fail_memory();
}

static void free_parts(parts *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        free(p->args[i]);
        free(p->room[i]);
    }
    free(p);
}

/* `n` elements of an item from element `from` on as rows; their partial results from number `partial` on. */
static void add_rows(parts *p, const md_li_call *call, const md_li_op *op, int64_t item, const int64_t span[3])
{
    const int64_t from = span[0], n = span[1], partial = span[2], length = n < MD_FX_LIST_TILE ? n : MD_FX_LIST_TILE;
    md_combo_part *part = &p->part[p->n - 1];
    for (int32_t i = 0; i < op->n_args; i++) {
        const int64_t at = part->n_items * op->n_args + i;
        md_tensor *t = &p->room[p->n - 1][at];
        const md_fx_list_name *name = op->arg[i];
        p->args[p->n - 1][at] = md_li_arg(call, name, item, t);
        if (name->kind == MD_FX_NAME_PARTIAL) {
            t->data = (char *)t->data + (size_t)partial * md_dtype_size(t->dtype);
            t->size[0] = n / length;
        } else if (name->kind == MD_FX_NAME_ARG && call->args[name->id].kind == MD_ARG_LIST) {
            *t = (md_tensor){.data = (char *)t->data + (size_t)from * md_dtype_size(t->dtype),
                             .dtype = t->dtype,
                             .rank = 2,
                             .size = {n / length, length},
                             .stride = {length, 1}};
        }
    }
    part->n_items++;
}

/* A whole item; its partial result is number `partial`, -1 for steps without. */
static void add_whole(parts *p, const md_li_call *call, const md_li_op *op, int64_t item, int64_t partial)
{
    md_combo_part *part = &p->part[p->n - 1];
    for (int32_t i = 0; i < op->n_args; i++) {
        const int64_t at = part->n_items * op->n_args + i;
        md_tensor *t = &p->room[p->n - 1][at];
        p->args[p->n - 1][at] = md_li_arg(call, op->arg[i], item, t);
        if (op->arg[i]->kind == MD_FX_NAME_PARTIAL) {
            t->data = (char *)t->data + (size_t)partial * md_dtype_size(t->dtype);
            t->rank = 0;
        }
    }
    part->n_items++;
}

/* ---- Steps */

static md_status add_flat_items(parts *p, const md_li_call *call, int32_t r)
{
    const md_li_op *op = &call->list->flat[r];
    int64_t n, partial = 0;
    MD_TRY(begin_part(p, op, 2 * call->n_items));
    for (int64_t i = 0; i < call->n_items; i++) {
        if (!md_li_is_flat(call, r, i, &n)) {
            partial += md_li_count(call, r, i);
            continue;
        }
        const int64_t full = n / MD_FX_LIST_TILE, rest = n % MD_FX_LIST_TILE;
        if (full > 0)
            add_rows(p, call, op, i, (const int64_t[]){0, n - rest, partial});
        if (rest > 0)
            add_rows(p, call, op, i, (const int64_t[]){n - rest, rest, partial + full});
        partial += full + (rest > 0);
    }
    return MD_OK;
}

static md_status add_whole_items(parts *p, const md_li_call *call, int32_t r)
{
    const md_li_op *op = &call->list->whole[r];
    int64_t n, partial = 0;
    MD_TRY(begin_part(p, op, call->n_items));
    for (int64_t i = 0; i < call->n_items; i++) {
        const int64_t count = md_li_count(call, r, i);
        if (count == 1 && !md_li_is_flat(call, r, i, &n))
            add_whole(p, call, op, i, partial);
        partial += count;
    }
    return MD_OK;
}

static md_status add_parts(parts *p, const md_li_call *call, int32_t step)
{
    const md_fx_list *list = call->list->formula;
    if (list->step[step].kind == MD_FX_STEP_ITEMS) {
        MD_TRY(begin_part(p, &call->list->step[step], call->n_items));
        for (int64_t i = 0; i < call->n_items; i++)
            add_whole(p, call, &call->list->step[step], i, -1);
        return MD_OK;
    }
    for (int32_t r = 0; r < list->n_reductions; r++) {
        if (list->reduction[r].step != step)
            continue;
        if (call->list->flat[r].op)
            MD_TRY(add_flat_items(p, call, r));
        if (call->list->whole[r].op)
            MD_TRY(add_whole_items(p, call, r));
    }
    return MD_OK;
}

static md_status run_items(const md_li_call *call, int32_t step)
{
    parts *p = calloc(1, sizeof *p);
    if (!p)
        return md_fail_memory();
    md_status s = add_parts(p, call, step);
    if (s == MD_OK)
        s = md_combo_call(call->list->context, call->stream, p->part, p->n);
    free_parts(p);
    return s;
}

static md_status run_scalars(const md_li_call *call, int32_t step)
{
    md_arg args[MD_FX_MAX_ARGS];
    md_tensor room[MD_FX_MAX_ARGS];
    const md_li_op *op = &call->list->step[step];
    for (int32_t i = 0; i < op->n_args; i++)
        args[i] = md_li_arg(call, op->arg[i], 0, &room[i]);
    return md_call(op->op, call->stream, args, op->n_args);
}

/* An argument that is written anew has a name for each time: X_4. The n bytes at `word` as the formula says it. */
static const char *name_in_formula(const md_fx_list *list, const char *word, size_t n)
{
    for (int32_t i = 0; i < list->n_names; i++) {
        const md_fx_list_name *name = &list->name[i];
        if (name->kind == MD_FX_NAME_ARG && strlen(name->name) == n && !memcmp(name->name, word, n))
            return list->arg[name->id].name;
    }
    return NULL;
}

/* The last error with the user's names, and where it happened. */
static md_status fail_in_words(md_status status, const md_fx_list *list, int32_t step)
{
    md_strbuf text = {0};
    for (const char *c = md_last_error(); *c;) {
        size_t n = 0;
        while (isalnum((unsigned char)c[n]) || c[n] == '_')
            n++;
        const char *name = n > 0 ? name_in_formula(list, c, n) : NULL;
        n = n > 0 ? n : 1;
        md_strbuf_printf(&text, "%.*s", (int)(name ? strlen(name) : n), name ? name : c);
        c += n;
    }
    status =
        md_fail(status, "%s (step %d of %d over the lists)", md_strbuf_text(&text), (int)step + 1, (int)list->n_steps);
    md_strbuf_finish(&text);
    return status;
}

static md_status run(md_li_call *call)
{
    const md_fx_list *list = call->list->formula;
    size_t n_bytes;
    MD_TRY(md_li_lay_out(call, &n_bytes));
    if (call->is_done)
        return MD_OK;
    MD_TRY(find_memory(call, n_bytes));
    for (int32_t i = 0; i < list->n_steps; i++) {
        const md_status s = list->step[i].kind == MD_FX_STEP_SCALARS ? run_scalars(call, i) : run_items(call, i);
        if (s != MD_OK)
            return fail_in_words(s, list, i);
    }
    return MD_OK;
}

md_status md_list_call(md_list *list, md_stream stream, const md_arg *args, int32_t n_args)
{
    if (!list)
        return md_fail(MD_INVALID_ARGUMENT, "list is NULL");
    md_li_call call = {.list = list, .stream = stream, .args = args};
    MD_TRY(md_li_check(&call, n_args));
    pthread_mutex_lock(&list->lock);
    const md_status s = run(&call);
    pthread_mutex_unlock(&list->lock);
    return s;
}
