/* From text to steps. */
#include "base/status.h"
#include "expr/diag.h"
#include "expr/list/inside.h"

#include <string.h>

static md_status read_text(md_fl_reader *r)
{
    MD_TRY(md_syntax_parse(&r->tree, r->scratch, r->text));
    if (!r->tree.list)
        return md_fail(MD_INVALID_ARGUMENT, "the formula has no lists: item t of list X is written X@t[...]");
    MD_TRY(md_fl_read(r));
    r->tree.item = r->item;
    r->tree.n_items = r->n_items;
    MD_TRY(md_front_create(&r->list->item, &r->tree, &r->options));
    MD_TRY(md_fl_place(r));
    return md_fl_write(r);
}

md_status md_fx_list_create(md_fx_list **out, const char *text, const md_fx_options *options)
{
    md_arena *arena = md_arena_create(), *scratch = md_arena_create();
    md_fl_reader *r = arena && scratch ? md_arena_alloc(scratch, sizeof *r) : NULL;
    md_fx_list *list = r ? md_arena_alloc(arena, sizeof *list) : NULL;
    if (!list) {
        md_arena_destroy(&scratch);
        md_arena_destroy(&arena);
        return md_fail_memory();
    }
    list->arena = arena;
    *r = (md_fl_reader){.arena = arena, .scratch = scratch, .text = text, .list = list};
    if (options)
        r->options = *options;
    const md_status status = read_text(r);
    md_arena_destroy(&scratch);
    if (status == MD_OK)
        *out = list;
    else
        md_fx_list_destroy(&list);
    return status;
}

void md_fx_list_destroy(md_fx_list **list)
{
    if (!list || !*list)
        return;
    md_arena *arena = (*list)->arena; /* the list itself lies in it */
    md_fx_formula_destroy(&(*list)->item);
    *list = NULL;
    md_arena_destroy(&arena);
}

const md_fx_list_name *md_fx_list_find(const md_fx_list *list, const char *name)
{
    for (int32_t i = 0; i < list->n_names; i++)
        if (strcmp(list->name[i].name, name) == 0)
            return &list->name[i];
    return NULL;
}

bool md_fx_has_lists(const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '#')
            c += strcspn(c, "\n");
        if (*c == '@')
            return true;
        if (!*c)
            break;
    }
    return false;
}
