/* Precedes a user's own kernel: see md_custom in md.h. md_expr.h: md_params, and the tunables as macros. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
