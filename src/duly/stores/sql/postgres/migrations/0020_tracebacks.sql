-- Where in the user's code an attempt failed.
alter table duly.attempts add column traceback text;
