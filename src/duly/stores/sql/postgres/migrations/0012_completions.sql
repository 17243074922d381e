-- Nothing: agenda.complete is one statement here.
select 1;
