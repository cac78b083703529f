-- The settings of SERVICE. --KEY=VALUE on the command line comes first.
listen = "127.0.0.1:8000"
notes_max = 1000
