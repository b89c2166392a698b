//! Files and folders that belong to one user, and that nobody else can touch.
