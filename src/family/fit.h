/* Constants of cost models that are fitted to recorded times. tools/fit prints their headers (*_fit.h), each of which
 * names its runs. With MD_FITTING, of the program that fits them, they can be changed while it runs. */
#ifndef MD_FAMILY_FIT_H
#define MD_FAMILY_FIT_H

#ifdef MD_FITTING

void md_fit_add(const char *file, const char *name, double *value, int n);

#define MD_FIT_LIST(name, ...)                                                                                         \
    static double name[] = {__VA_ARGS__};                                                                              \
    __attribute__((constructor)) static void md_fit_add_##name(void)                                                   \
    {                                                                                                                  \
        md_fit_add(__FILE__, #name, name, (int)(sizeof name / sizeof *name));                                          \
    }
#define MD_FIT(name, value)                                                                                            \
    static double name = value;                                                                                        \
    __attribute__((constructor)) static void md_fit_add_##name(void)                                                   \
    {                                                                                                                  \
        md_fit_add(__FILE__, #name, &name, 1);                                                                         \
    }

#else

/* MD_FIT(NAME, value): a number. MD_FIT_LIST(NAME, value, ...): an array. No semicolon follows. */
#define MD_FIT(name, value) static const double name = value;
#define MD_FIT_LIST(name, ...) static const double name[] = {__VA_ARGS__};

#endif
#endif
