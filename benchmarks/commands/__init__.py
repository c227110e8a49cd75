"""The subcommands of the program, one file each. They parse, call a library function and print; nobody imports them."""
