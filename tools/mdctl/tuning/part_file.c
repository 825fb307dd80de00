/* Writes and reads the first and the last line of a part's file of wisdom. */
#include "tuning/part_file.h"

#include <jansson.h>
#include <string.h>

#define HEAD "# multidispatch part %d/%d of plan %s on "

void part_print_head(FILE *file, const part_head *head)
{
    fprintf(file, HEAD "%s\n", head->part, head->n_parts, head->plan, head->device);
}

void part_print_end(FILE *file, const part_head *head)
{
    fprintf(file, "# end of part %d/%d of plan %s\n", head->part, head->n_parts, head->plan);
}

/* A md_write_fn: takes the name from what md_info says. */
static int take_name(void *user, const char *text, size_t n_bytes)
{
    json_t *info = json_loadb(text, n_bytes, 0, NULL);
    const char *name = json_string_value(json_object_get(info, "name"));
    snprintf(user, 96, "%s", name ? name : "unknown");
    json_decref(info);
    return 0;
}

bool part_device(char out[96], md_context *context)
{
    return md_info(context, 1, take_name, out) == MD_OK;
}

static bool ends_with(const char *text, size_t n_bytes, const char *end)
{
    const size_t n = strlen(end);
    return n_bytes >= n && !memcmp(text + n_bytes - n, end, n);
}

void part_read(part_head *out, const char *text, size_t n_bytes)
{
    char line[256] = "", end[128];
    part_head h = {0};
    memcpy(line, text ? text : "", n_bytes < sizeof line - 1 ? n_bytes : sizeof line - 1);
    line[strcspn(line, "\n")] = 0;
    *out = h;
    if (sscanf(line, "# multidispatch part %d/%d of plan %39[0-9a-f] on %95[^\n]", &h.part, &h.n_parts, h.plan,
               h.device) != 4)
        return;
    snprintf(end, sizeof end, "# end of part %d/%d of plan %s\n", h.part, h.n_parts, h.plan);
    h.has_end = ends_with(text, n_bytes, end);
    *out = h;
}

int part_check(const part_head *head, const char *name, const part_head *first, const char *first_name,
               const char *device)
{
    if (head->n_parts == 0)
        return CLI_OK;
    if (!head->has_end)
        return cli_fail("%s: part %d/%d is cut, its last line is missing: nothing is taken", name, head->part,
                        head->n_parts);
    if (strcmp(head->device, device) != 0)
        return cli_fail("%s: part %d/%d was tuned on '%s', this is '%s': nothing is taken", name, head->part,
                        head->n_parts, head->device, device);
    if (head->n_parts != first->n_parts)
        return cli_fail("%s is part %d/%d, but %s is part %d/%d: parts of one cut belong together, and nothing is "
                        "taken",
                        name, head->part, head->n_parts, first_name, first->part, first->n_parts);
    if (strcmp(head->plan, first->plan) != 0)
        return cli_fail("%s is a part of plan %.8s, but %s of plan %.8s: other ops, options or versions; nothing is "
                        "taken",
                        name, head->plan, first_name, first->plan);
    return CLI_OK;
}
