/* Hands finished text to the function that a caller gave for output. */
#include "api/context.h"
#include "base/status.h"

md_status md_api_write(const md_strbuf *text, md_write_fn write, void *user)
{
    if (text->failed)
        return md_fail_memory();
    if (!write)
        return md_fail(MD_INVALID_ARGUMENT, "write is NULL");
    if (write(user, md_strbuf_text(text), text->size))
        return md_fail(MD_IO, "the caller's write function stopped the output");
    return MD_OK;
}
