/* Text with the C locale's decimal point. An application may have set a locale with a comma, which would get into
 * kernels, files and keys. */
#ifndef MD_BASE_PLAIN_H
#define MD_BASE_PLAIN_H

#include <stdarg.h>
#include <stddef.h>

/** As snprintf, vsnprintf and strtod in the C locale, whatever the thread's is. */
int md_snprintf(char *out, size_t n_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int md_vsnprintf(char *out, size_t n_bytes, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
double md_strtod(const char *text, char **end);

#endif
