"""The subcommands of the program, one file each. They parse, call the library and print. No module imports them."""
