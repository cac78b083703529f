/* `silly_log_fmt` of Silly's C API: stable Rust cannot define a function with variable arguments. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#define TEXT_BYTES 4096

void tidegate_log_formatted(const char *text, size_t size);

void silly_log_fmt(const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list arguments;
	int size;
	va_start(arguments, format);
	size = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (size < 0)
		return;
	/* What is longer is cut. */
	tidegate_log_formatted(text, size < TEXT_BYTES ? (size_t)size : TEXT_BYTES - 1);
}
