@echo off
"%~dp0node.exe" "%~dp0..\dist\covey.js" %*
exit /b %ERRORLEVEL%
